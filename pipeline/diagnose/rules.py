"""The modes in which a model fails, and the rule for each: the first that holds decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from pipeline.diagnose.case import LIMITS, Case, Evidence, named, numbers, short
from pipeline.domain import Stop, Tally
from pipeline.outcomes import Outcome


class Mode(StrEnum):
    """What went wrong, in a word. Every attempt that is blamed on the model has exactly one."""

    CONTESTED = "contested"
    DIED = "died"
    TESTS_TIMED_OUT = "tests_timed_out"
    TESTS_DID_NOT_RUN = "tests_did_not_run"
    PATCH_REJECTED = "patch_rejected"
    REFUSED = "refused"
    MALFORMED = "malformed"
    CIRCLING = "circling"
    LIMIT = "limit"
    EDIT_LOST = "edit_lost"
    NO_EDIT = "no_edit"
    BROKE_OTHERS = "broke_others"
    PARTLY_FIXED = "partly_fixed"
    NOT_DONE = "not_done"
    ONLY_TESTS = "only_tests"
    WRONG_PLACE = "wrong_place"
    NOT_FIXED = "not_fixed"
    RIGHT_FILE = "right_file"


def of_contested(case: Case) -> Evidence | None:
    if case.outcome is not Outcome.CONTESTED:
        return None
    return Evidence(text="; ".join(short(doubt) for doubt in case.doubts) or "contested")


def of_died(case: Case) -> Evidence | None:
    if case.outcome is not Outcome.DIED:
        return None
    return Evidence(text=short(case.death) or "its container died")


def of_timed_out(case: Case) -> Evidence | None:
    if case.outcome is not Outcome.TESTS_TIMED_OUT:
        return None
    within = f" within {case.scoring_seconds} s" if case.scoring_seconds else ""
    return touching(case, f"its tests did not end{within}, and gold's do")


def of_not_run(case: Case) -> Evidence | None:
    if case.outcome is not Outcome.TESTS_DID_NOT_RUN:
        return None
    return touching(case, "with it the tests did not run to their end, and with gold they do")


def of_rejected(case: Case) -> Evidence | None:
    if case.outcome is not Outcome.PATCH_REJECTED:
        return None
    if case.files:
        return touching(case, "it does not apply to the tree")
    first = next((line for line in case.patch.splitlines() if line.strip()), "")
    return Evidence(text=f"it is no patch, and begins: {short(first, 80)}")


def of_refused(case: Case) -> Evidence | None:
    refused = nothing(case) and case.stop is Stop.REFUSED
    return ending(case, "the model refused") if refused else None


def of_malformed(case: Case) -> Evidence | None:
    if not nothing(case) or case.stop is not Stop.MALFORMED:
        return None
    return ending(case, "its replies held no action that the agent could read")


def of_circling(case: Case) -> Evidence | None:
    circle = case.circle
    if not nothing(case) or case.stop not in LIMITS or circle is None or not circle.at_end:
        return None
    edited = f"edits at {numbers(case.edits)}" if case.edits else "no step edits a file"
    return Evidence(
        text=f"{circle_words(case)}, until {case.stop}; {edited}",
        steps=tuple(range(circle.first, circle.last + 1)),
    )


def of_limit(case: Case) -> Evidence | None:
    if not nothing(case) or case.stop not in LIMITS:
        return None
    if case.steps is None:
        return Evidence(text=f"{case.stop}, and nothing was submitted")
    if not case.edits:
        return None
    text = f"{case.stop} after step {len(case.steps)}, with edits not submitted"
    return Evidence(text=f"{text}: {numbers(case.edits)}", steps=tuple(case.edits))


def of_edit_lost(case: Case) -> Evidence | None:
    if not nothing(case) or not case.edits:
        return None
    text = f"{case.stop or 'it stopped'}, with nothing left of the edits of {numbers(case.edits)}"
    return Evidence(text=text, steps=tuple(case.edits))


def of_no_edit(case: Case) -> Evidence | None:
    if not nothing(case):
        return None
    why = case.stop or "nobody recorded why it stopped"
    if case.steps is None:
        return Evidence(text=f"nothing was submitted; {why}")
    return Evidence(text=f"no step of {len(case.steps)} edits a file; {why}")


def of_broke_others(case: Case) -> Evidence | None:
    whole = case.fixed.passed == case.fixed.total
    if not graded(case) or not whole or case.kept.passed == case.kept.total:
        return None
    text = f"FAIL_TO_PASS {said(case.fixed)}; {broken_words(case)}"
    return touching(case, text, tests=case.broken)


def of_partly_fixed(case: Case) -> Evidence | None:
    if not graded(case) or not 0 < case.fixed.passed < case.fixed.total:
        return None
    text = f"FAIL_TO_PASS {said(case.fixed)}{listed(', still failing', case.unfixed)}"
    if case.kept.passed < case.kept.total:
        text += f"; {broken_words(case)}"
    return touching(case, text, tests=case.unfixed)


def of_not_done(case: Case) -> Evidence | None:
    if not graded(case) or not case.machine:
        return None
    what = "its tests do not pass" if case.reward is None else f"reward {case.reward:.3g}"
    return Evidence(text=f"{fixed_words(case)}{what}")


def of_only_tests(case: Case) -> Evidence | None:
    if not graded(case) or not case.files or len(case.aside) < len(case.files):
        return None
    return touching(case, f"{fixed_words(case)}nothing but tests or documents is edited")


def of_wrong_place(case: Case) -> Evidence | None:
    if not graded(case) or case.common:
        return None
    return touching(case, f"{fixed_words(case)}gold edits {named(sorted(case.gold))}")


def of_not_fixed(case: Case) -> Evidence | None:
    if not graded(case) or not case.fixed.total or case.fixed.passed:
        return None
    text = f"FAIL_TO_PASS {said(case.fixed)}{listed(':', case.unfixed)}"
    if case.kept.passed < case.kept.total:
        text += f"; {broken_words(case)}"
    return touching(case, text, tests=case.unfixed)


def of_right_file(case: Case) -> Evidence | None:
    known = case.fixed.total or case.kept.total
    text = "every test that was counted passes" if known else "nobody recorded which tests failed"
    return touching(case, text)


Answer: TypeAlias = Callable[[Case], Evidence | None]


class Rule(NamedTuple):
    """A mode, how it is told, and what it means."""

    mode: Mode
    evidence: Answer
    sentence: str


RULES: tuple[Rule, ...] = (
    Rule(Mode.CONTESTED, of_contested, "The official tests pass, and could not have failed."),
    Rule(Mode.DIED, of_died, "What the model did ended its container."),
    Rule(Mode.TESTS_TIMED_OUT, of_timed_out, "With its patch the tests never end."),
    Rule(Mode.TESTS_DID_NOT_RUN, of_not_run, "With its patch the tests do not run to their end."),
    Rule(Mode.PATCH_REJECTED, of_rejected, "Its patch does not apply, or is none."),
    Rule(Mode.REFUSED, of_refused, "The model refused to go on."),
    Rule(Mode.MALFORMED, of_malformed, "The agent gave up on replies that it could not read."),
    Rule(Mode.CIRCLING, of_circling, "It repeated the same actions until a limit ended it."),
    Rule(Mode.LIMIT, of_limit, "A limit ended it before it submitted anything."),
    Rule(Mode.EDIT_LOST, of_edit_lost, "It edited files, stopped, and submitted none of it."),
    Rule(Mode.NO_EDIT, of_no_edit, "It submitted nothing, and no edit was seen."),
    Rule(Mode.BROKE_OTHERS, of_broke_others, "It fixed all, and broke tests that had passed."),
    Rule(Mode.PARTLY_FIXED, of_partly_fixed, "It fixed some of the tests: an edge case is missed."),
    Rule(Mode.NOT_DONE, of_not_done, "What it left in its container does not pass the tests."),
    Rule(Mode.ONLY_TESTS, of_only_tests, "It edited nothing but tests or documents."),
    Rule(Mode.WRONG_PLACE, of_wrong_place, "It edited no file that gold edits, and fixed nothing."),
    Rule(Mode.NOT_FIXED, of_not_fixed, "It edited a file that gold edits, and fixed nothing."),
    Rule(
        Mode.RIGHT_FILE, of_right_file, "It edited a file that gold edits; no tests are recorded."
    ),
)
"""What the tests say comes before where the patch is: who fixes something is in no wrong place."""


def diagnosis(case: Case) -> tuple[Mode, Evidence]:
    """The first rule that holds; the last holds of whatever was graded."""
    for rule in RULES[:-1]:
        found = rule.evidence(case)
        if found is not None:
            return rule.mode, found
    found = RULES[-1].evidence(case)
    assert found is not None
    return RULES[-1].mode, found


def notes(case: Case) -> Iterator[str]:
    """What stands beside the evidence: what else ended it, and what nobody can know."""
    if not nothing(case) and case.stop not in (None, Stop.SUBMITTED):
        after = f" after step {len(case.steps)}" if case.steps else ""
        yield f"it was graded with what it had at {case.stop}{after}"
        if case.circle is not None and case.circle.at_end:
            yield circle_words(case)
    if case.no_steps:
        yield case.no_steps


def nothing(case: Case) -> bool:
    return case.outcome is Outcome.NO_SUBMISSION


def graded(case: Case) -> bool:
    return case.outcome is Outcome.UNRESOLVED


def ending(case: Case, text: str) -> Evidence:
    """At its last step."""
    if not case.steps:
        return Evidence(text=text)
    last = len(case.steps)
    return Evidence(text=f"{text}, at step {last}", steps=(last,))


def touching(case: Case, text: str, *, tests: tuple[str, ...] = ()) -> Evidence:
    """With the files that the patch touches, and the steps that edited them."""
    if case.machine:
        return Evidence(text=text, tests=tests)
    if not case.files:
        return Evidence(text=f"{text}; its patch names no file", tests=tests)
    at = f" ({numbers(case.edits_of_patch)})" if case.edits_of_patch else ""
    verb = "edits"
    if graded(case) and case.gold:
        verb = "edits, as gold does," if case.common else "edits, unlike gold,"
    shown = case.common or case.files
    others = len(case.files) - len(shown)
    more = f" and {others} other{'s' if others > 1 else ''}" if others else ""
    return Evidence(
        text=f"{text}; {verb} {named(shown)}{more}{at}", steps=case.edits_of_patch, tests=tests
    )


def circle_words(case: Case) -> str:
    circle = case.circle
    assert circle is not None
    actions = "; ".join(short(action, 60) for action in circle.actions)
    what = "the same action" if circle.period == 1 else f"a round of {circle.period} actions"
    return f"steps {circle.first}–{circle.last} are {what}, {circle.rounds} times: {actions}"


def said(tally: Tally) -> str:
    return f"{tally.passed}/{tally.total}"


def listed(lead: str, names: tuple[str, ...]) -> str:
    """Nothing where no names are known."""
    joint = "" if lead.endswith(":") else ":"
    # unittest says its test twice: `test_x (tests.test_y.Z.test_x)`.
    shown = [re.sub(r"^(test\w*) \([\w.]+\)$", r"\1", name) for name in names]
    return f"{lead}{joint} {named(shown)}" if names else ""


def broken_words(case: Case) -> str:
    count = case.kept.total - case.kept.passed
    return f"{count} of {case.kept.total} PASS_TO_PASS broken{listed(':', case.broken)}"


def fixed_words(case: Case) -> str:
    return f"FAIL_TO_PASS {said(case.fixed)}; " if case.fixed.total else ""
