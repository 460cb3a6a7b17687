"""Runs on disk for what shows them: one with every outcome and cause, and one that means harm.

`write_run` drives the real schedule over a scripted world into a real ledger; `leave` puts beside
it the files that a run leaves: trajectories, tapes, logs and official reports.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

from pipeline.domain import (
    Attempt,
    Cause,
    Evidence,
    Fault,
    Finding,
    Patch,
    Rollout,
    Snapshot,
    Step,
    Stop,
    Tally,
    Usage,
    Verdict,
)
from pipeline.gateway.tapes import Exchange, Header, Recorder
from pipeline.ledger import Ledger
from pipeline.outcomes import Outcome
from pipeline.rundir import RunDir
from pipeline.trust import Trust
from tests.fakes import (
    CONTESTED,
    DID_NOT_RUN,
    DIED,
    REJECTED,
    RESOLVED,
    STUMBLE,
    SUBMITTED,
    TIMED_OUT,
    UNRESOLVED,
    WITHOUT_PATCH,
    World,
    drive,
    fault,
    make_plan,
    plan_json,
)

Rolls: TypeAlias = dict[tuple[str, int], Sequence[Rollout | Fault]]
Scores: TypeAlias = dict[tuple[str, int], Sequence[Verdict | Fault]]

DIFF = """\
diff --git a/lib/cache.py b/lib/cache.py
--- a/lib/cache.py
+++ b/lib/cache.py
@@ -1,4 +1,5 @@
 def get(key):
-    return table[key]
+    if key in table:
+        return table.get(key)
     # ---
 # end
"""
STEPS = (
    Step(thought="I look at what there is.", action="ls && cat lib/cache.py", observation="lib"),
    Step(thought="Now the edit.", action="sed -i 's/a/b/' lib/cache.py", observation=""),
    Step(thought="", action="python -m pytest tests -q", observation="1 failed", seconds=3.5),
    Step(thought="Done: needle.", action="submit", observation="needle needle"),
)
NAMES = {
    "FAIL_TO_PASS": {"success": [], "failure": ["tests/test_cache.py::test_get[a b]"]},
    "PASS_TO_PASS": {"success": ["tests/test_cache.py::test_put"], "failure": []},
}
LOG = """\
>>>>> Start Test Output
_________________________ test_get[a b] _________________________

    def test_get(key):
>       assert get("a b") == 1
E       KeyError: 'a b'

=========================== short test summary info ============================
PASSED tests/test_cache.py::test_put
FAILED tests/test_cache.py::test_get[a b] - KeyError: 'a b'
>>>>> End Test Output
"""
HARM = (
    "<script>window.hacked = 1</script></script><script>window.hacked = 2</script>"
    '<img src="https://example.invalid/x.png" onerror="window.hacked = 3"> &amp; \\u003c '
    "]]> --> \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202etfel ot thgir\u202c \u2066x\u2069 "
    "\x00\x08 \ud83d"
    " javascript:window.hacked=4 ${window.hacked=5} {{7*7}}"
)
"""What a model may say; a page must show it and do nothing."""


def write_run(
    place: Path,
    world: World,
    *ids: str,
    k: int = 1,
    pending: Iterable[str] = (),
    **plan_changes: Any,
) -> RunDir:
    """One invocation over these instances, on disk; `pending` ones are planned and not begun."""
    run = RunDir(place)
    place.mkdir(parents=True)
    plan = make_plan(*ids, k=k, name=place.name)
    with Ledger(run.ledger) as ledger:
        drive(plan, ledger, world)
    whole = make_plan(*ids, *pending, k=k, name=place.name)
    content = plan_json(whole, has_control=world.has_control) | plan_changes
    run.plan.write_text(json.dumps(content), encoding="utf-8")
    return run


def leave(
    run: RunDir,
    attempt: Attempt,
    *,
    steps: Iterable[Step] = STEPS,
    names: Mapping[str, Any] = NAMES,
    log: str = LOG,
    tries: int = 1,
    said: str = "stop",
) -> None:
    """The files of one attempt: a trajectory and a tape for each try, a log and a report."""
    for number in range(1, tries + 1):
        workdir = run.attempt(attempt, number)
        workdir.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(asdict(step)) + "\n" for step in steps)
        (workdir / "steps.jsonl").write_text(lines, encoding="utf-8")
        header = Header(
            run=run.root.name,
            plan="p",
            instance_id=attempt.instance_id,
            attempt=attempt.number,
            try_number=number,
            model="m",
            where="https://example.invalid/v1",
            begun="2026-01-01T00:00:00.000+00:00",
        )
        tape = Recorder(workdir / "tape.jsonl", header)
        for ordinal in (1, 2, 3):
            broken = ordinal == 3 and number < tries
            ending = Fault(cause=Cause.ENDPOINT, detail=said) if broken else None
            tape.write(
                Exchange(
                    ordinal=ordinal,
                    request={"temperature": 0.0, "top_p": 1.0, "messages": []},
                    asked=f"2026-01-01T00:00:0{ordinal * 2}.000+00:00",
                    seconds=1.5,
                    status=503 if broken else 200,
                    answer={"choices": [{"finish_reason": said}]},
                    ending=ending,
                    usage=Usage(requests=1, input_tokens=90, output_tokens=9, as_planned=1),
                )
            )
        tape.close()
    scoring = run.scoring(attempt.instance_id, attempt.number)
    scoring.mkdir(parents=True, exist_ok=True)
    (scoring / "test_output.txt").write_text(log, encoding="utf-8", errors="replace")
    report = {attempt.instance_id: {"resolved": False, "tests_status": names}}
    (scoring / "report.json").write_text(json.dumps(report), encoding="utf-8")


def every_ending(place: Path) -> RunDir:
    """Every outcome and cause; a place that is broken, one nobody looked at, one pending."""
    causes = list(Cause)
    ids = ["core__one-1", "core__two-2", "core__three-3", "tool__four-4", "tool__broken-5"]
    ids += ["tool__unlooked-6", *(f"net__cause-{n}" for n in (7, 8, 9))]
    rolls: Rolls = {Attempt("core__one-1", 3): [WITHOUT_PATCH]}
    for n, cause in enumerate(causes):
        rolls[Attempt(f"net__cause-{7 + n // 3}", n % 3 + 1)] = [fault(cause, spent=900)]
    scores: Scores = {
        Attempt("core__one-1", 2): [graded(UNRESOLVED)],
        Attempt("core__two-2", 1): [REJECTED],
        Attempt("core__two-2", 2): [CONTESTED],
        Attempt("core__two-2", 3): [TIMED_OUT],
        Attempt("core__three-3", 1): [DID_NOT_RUN],
        Attempt("core__three-3", 2): [DIED],
        Attempt("tool__four-4", 2): [UNRESOLVED],
        Attempt("tool__unlooked-6", 1): [UNRESOLVED],
    }
    golds: dict[str, list[Any]] = {
        "tool__broken-5": [STUMBLE],
        "tool__unlooked-6": [fault(Cause.IMAGE)],
    }
    world = World(rolls=rolls, scores=scores, golds=golds)
    run = write_run(place, world, *ids, k=3, pending=["tool__pending-10"])
    leave(run, Attempt("core__one-1", 2), tries=1)
    for n in (1, 2, 3):
        leave(run, Attempt("net__cause-7", n), tries=1, log="")
    return run


def graded_in_fractions(place: Path) -> RunDir:
    """Two terminal tasks: containers are handed in, no test has a name, one earns a part."""
    bare: dict[str, Any] = {"fail_to_pass": Tally(), "pass_to_pass": Tally()}
    scores: Scores = {
        Attempt("join", 1): [replace(UNRESOLVED, reward=0.4, **bare)],
        Attempt("a-task-with-a-long-name", 1): [replace(RESOLVED, reward=1.0, **bare)],
    }
    rolls: Rolls = {
        attempt: [
            replace(SUBMITTED, submission=Snapshot(f"passone/snapshot:{n}"), asked_seconds=0.3)
        ]
        for n, attempt in enumerate(scores, 1)
    }
    world = World(rolls=rolls, scores=scores)
    ids = [id_ for id_, _ in scores]
    run = write_run(place, world, *ids)
    plan = json.loads(run.plan.read_text(encoding="utf-8"))
    plan["selection"]["benchmark"] = "terminal"
    run.plan.write_text(json.dumps(plan), encoding="utf-8")
    run.attempt(Attempt("join", 1), 1).mkdir(parents=True, exist_ok=True)
    scoring = run.scoring("join", 1)
    scoring.mkdir(parents=True)
    (scoring / "test_output.txt").write_text("three lines of five", encoding="utf-8")
    named = {"reward": 0.4, "lines": 3, "odd": float("nan")}
    (scoring / "rewards.json").write_text(json.dumps({"named": named}), encoding="utf-8")
    return run


def graded(verdict: Verdict) -> Verdict:
    """Counted as `NAMES` does."""
    return replace(verdict, fail_to_pass=Tally(0, 1), pass_to_pass=Tally(1, 1))


def harmful(place: Path) -> RunDir:
    """One instance at which everything that a model can say means harm, and is long as well."""
    long = "A" * 10_000_000
    name = f"tests/test_x.py::test_{HARM}"
    patch = DIFF + "".join(f"+{line}\n" for line in (HARM, long))
    patch = f"diff --git a/{HARM} b/{HARM}\n" + patch
    attempt = Attempt("evil__one-1", 1)
    rolls: Rolls = {
        attempt: [
            Rollout(
                stop=Stop.SUBMITTED,
                submission=Patch(patch.replace("\ud83d", "")),
                exit_status=HARM,
                usage=SUBMITTED.usage,
                steps=2,
            )
        ],
        Attempt("evil__two-2", 1): [Fault(cause=Cause.UNKNOWN, detail=HARM * 3, final=True)],
    }
    verdict = Verdict(
        finding=Finding.RESOLVED,
        grader=HARM.replace("\ud83d", ""),
        fail_to_pass=Tally(0, 1),
        evidence=Evidence(
            tampered=True, reasons=(HARM,), image_digest=RESOLVED.evidence.image_digest
        ),
    )
    world = World(rolls=rolls, scores={attempt: [verdict]})
    harm = HARM.replace("\ud83d", "").replace("\x00", "")
    run = write_run(
        place, world, "evil__one-1", "evil__two-2", name=f"harm {harm}", model=harm, agent=harm
    )
    steps = [
        Step(thought=HARM, action=f"echo {HARM}\npytest", observation=f"{HARM}{long}{HARM}"),
        Step(thought=long, action=f"sed -i x y.py {HARM}", observation=HARM),
    ]
    names = {"FAIL_TO_PASS": {"success": [], "failure": [name]}}
    log = f"FAILED {name} - {HARM}\n{long}\n{HARM}\n"
    leave(run, attempt, steps=steps, names=names, log=log, said=HARM)
    leave(run, Attempt("evil__two-2", 1), steps=steps, log=HARM, said=HARM)
    return run


ALL_OUTCOMES = {outcome.value for outcome in Outcome} | {"pending"}
ALL_TRUST = {trust.value for trust in Trust}
