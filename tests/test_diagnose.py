"""Why a model failed: one mode an attempt, by rules that each have one recorded example."""

from __future__ import annotations

import csv
import io
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import sampler
from pipeline.agents import minitraces, sweagent
from pipeline.benchmarks import dataset
from pipeline.diagnose import RULES, Case, Mode, diagnose, diagnosis, differing, in_order, keep
from pipeline.diagnose.patches import files_in, is_aside
from pipeline.diagnose.rules import notes
from pipeline.diagnose.trajectory import circle_of, edits_in, writes
from pipeline.domain import Attempt, Instance, Step, Stop, Tally
from pipeline.ledger import TYPES, Kind, Ledger
from pipeline.outcomes import BLAME, Blame, Outcome
from pipeline.results import Results, load
from pipeline.rundir import RunDir
from tests.command import Passone
from tests.fakes import PROPERTY
from tests.test_docs import ROOT, bare, table

DATA = Path(__file__).parent / "data"
EXAMPLES = DATA / "diagnose"
DEMO = {item.id: item for item in dataset.load("demo").instances}


# Recorded examples, put back into a run


def example(mode: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((EXAMPLES / f"{mode}.json").read_text(encoding="utf-8"))
    return tree


def instance_in(tree: Mapping[str, Any]) -> Instance:
    if tree["dataset"] == "demo":
        return DEMO[tree["instance"]]
    return Instance(
        id=tree["instance"],
        stratum=tree["repo"],
        prompt="",
        image="",
        difficulty=tree["difficulty"],
        row=tree,
    )


def a_run(root: Path, *trees: Mapping[str, Any]) -> RunDir:
    """A run that came to what these examples recorded; two of one instance are two attempts."""
    run = RunDir(root)
    run.root.mkdir()
    instances = list({tree["instance"]: instance_in(tree) for tree in trees}.values())
    numbers: Counter[str] = Counter()
    with Ledger(run.ledger) as ledger:
        for tree in trees:
            numbers[tree["instance"]] += 1
            attempt = Attempt(tree["instance"], numbers[tree["instance"]])
            for kind, _, try_number, name, body in tree["rows"]:
                value = TYPES[name].validate_python(body)
                ledger.append(Kind(kind), attempt, try_number, value)
            lines = [json.dumps(step) for step in tree["steps"] or ()]
            if lines:
                run.write(
                    run.attempt(attempt, try_number_in(tree)) / "steps.jsonl", "\n".join(lines)
                )
            if tree["report"]:
                place = run.scoring(*attempt)
                run.write(place / "report.json", json.dumps(tree["report"]))
    fingerprint = ""
    if all(item.id in DEMO for item in instances):
        fingerprint = sampler.fingerprint(dataset.canonical(item) for item in instances)
    selection = {"ids": [item.id for item in instances], "dataset": "demo", "recipe": {}}
    plan = {
        "name": root.name,
        "selection": selection | {"fingerprint": fingerprint},
        "attempts": max(numbers.values()),
        "agent": "miniswe",
        "has_control": True,
        "grader": "swebench 5.0.2",
        "digest": "d",
        "sandbox": {"scoring_seconds": 30},
        "repos": {item.id: item.stratum for item in instances},
    }
    run.write(run.plan, json.dumps(plan))
    return run


def try_number_in(tree: Mapping[str, Any]) -> int:
    return max(int(row[2]) for row in tree["rows"] if row[0] == Kind.ROLLOUT)


@pytest.mark.parametrize("mode", Mode)
def test_every_rule_has_one_recorded_example_and_finds_it(mode: Mode, tmp_path: Path) -> None:
    tree = example(mode)
    run = a_run(tmp_path / "run", tree)
    instance = instance_in(tree)
    (found,) = diagnose(load(run), run, {instance.id: instance})
    assert found.mode is mode
    assert found.text == tree["says"]
    assert list(found.evidence.steps) == tree["at"]
    assert (found.repo, found.difficulty) == (instance.stratum, instance.difficulty)


def test_every_example_is_of_a_mode() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.json")} == {mode.value for mode in Mode}


def test_every_mode_has_one_rule_and_one_sentence() -> None:
    assert [rule.mode for rule in RULES] == list(Mode)
    assert all(rule.sentence[0].isupper() and rule.sentence.endswith(".") for rule in RULES)


def test_the_page_has_every_rule_in_its_order_with_its_example() -> None:
    rows = table(ROOT / "docs/diagnose.md", "mode", "example")
    assert [bare(row["mode"]) for row in rows] == [mode.value for mode in Mode]
    for row, rule in zip(rows, RULES, strict=True):
        assert row["it means"].startswith(rule.sentence)
        assert bare(row["example"].partition(",")[0]) == example(rule.mode)["instance"]


# Every attempt that is blamed on the model


def a_case(outcome: Outcome = Outcome.UNRESOLVED, **changes: Any) -> Case:
    values: dict[str, Any] = {
        "stop": Stop.SUBMITTED,
        "patch": diff_of("src/a.py"),
        "gold": frozenset({"src/a.py"}),
        "hidden": frozenset({"tests/test_a.py"}),
        "steps": [step("sed -i s/a/b/ src/a.py")],
    }
    return Case(outcome=outcome, **(values | changes))


def diff_of(*paths: str) -> str:
    return "".join(
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n"
        for path in paths
    )


def step(action: str, observation: str = "") -> Step:
    return Step(thought="", action=action, observation=observation)


MODELS = [outcome for outcome, blame in BLAME.items() if blame is Blame.MODEL]
PATCHES = ("", "prose", diff_of("src/a.py"), diff_of("src/b.py"), diff_of("tests/test_a.py"))
TALLIES = (Tally(), Tally(0, 2), Tally(1, 2), Tally(2, 2))
STEPS: tuple[list[Step] | None, ...] = (
    None,
    [],
    [step("ls")] * 9,
    [step("sed -i s/a/b/ src/a.py")],
)


def test_whatever_is_blamed_on_the_model_has_exactly_one_mode() -> None:
    seen = set()
    for outcome, stop, patch, fixed, kept, steps in itertools.product(
        MODELS, [None, *Stop], (None, *PATCHES), TALLIES, TALLIES, STEPS
    ):
        left = {"patch": patch or "", "machine": patch is None}
        case = a_case(outcome, stop=stop, fixed=fixed, kept=kept, steps=steps, **left)
        mode, evidence = diagnosis(case)
        assert evidence.text
        seen.add(mode)
    assert seen == set(Mode)


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        # Test results outrank the place: who fixes something is in no wrong place.
        ({"patch": diff_of("src/b.py"), "fixed": Tally(1, 2)}, Mode.PARTLY_FIXED),
        ({"patch": diff_of("src/b.py"), "fixed": Tally(0, 2)}, Mode.WRONG_PLACE),
        ({"patch": diff_of("src/b.py")}, Mode.WRONG_PLACE),
        # Of a gold with several files one is enough.
        (
            {"gold": frozenset({"src/a.py", "src/c.py"}), "fixed": Tally(0, 2)},
            Mode.NOT_FIXED,
        ),
        ({"fixed": Tally(2, 2), "kept": Tally(1, 2)}, Mode.BROKE_OTHERS),
        # A container has no files that gold could have edited too.
        ({"patch": "", "gold": frozenset(), "machine": True}, Mode.NOT_DONE),
        ({"patch": "", "machine": True, "fixed": Tally(0, 2)}, Mode.NOT_DONE),
        ({"patch": "", "machine": True, "fixed": Tally(1, 2)}, Mode.PARTLY_FIXED),
        ({"fixed": Tally(1, 2), "kept": Tally(1, 2)}, Mode.PARTLY_FIXED),
        ({"patch": diff_of("tests/test_a.py", "README.rst")}, Mode.ONLY_TESTS),
        ({"patch": diff_of("docs/index.txt"), "fixed": Tally(0, 2)}, Mode.ONLY_TESTS),
        ({"patch": diff_of("tests/test_a.py", "src/b.py")}, Mode.WRONG_PLACE),
        # What gold edits is no test, wherever it lies.
        (
            {"patch": diff_of("tests/tool.py"), "gold": frozenset({"tests/tool.py"})},
            Mode.RIGHT_FILE,
        ),
        # An imported verdict says 0 of what was never a patch.
        ({"patch": "I would change a.py."}, Mode.WRONG_PLACE),
    ],
)
def test_a_graded_patch_is_told_by_its_tests_then_by_its_files(
    changes: dict[str, Any], mode: Mode
) -> None:
    assert diagnosis(a_case(**changes))[0] is mode


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({"stop": Stop.STEP_LIMIT}, Mode.LIMIT),
        ({"stop": Stop.STEP_LIMIT, "steps": None, "no_steps": "none"}, Mode.LIMIT),
        ({"stop": Stop.STEP_LIMIT, "steps": [step("ls")]}, Mode.NO_EDIT),
        ({"stop": Stop.TIME_LIMIT, "steps": [step("ls -l")] * 4}, Mode.CIRCLING),
        # It stopped by itself: no limit was what kept it in the circle.
        ({"stop": Stop.GAVE_UP, "steps": [step("ls -l")] * 4}, Mode.NO_EDIT),
        ({"stop": Stop.SUBMITTED}, Mode.EDIT_LOST),
        ({"stop": None, "steps": None, "no_steps": "none"}, Mode.NO_EDIT),
        ({"stop": Stop.REFUSED}, Mode.REFUSED),
        ({"stop": Stop.MALFORMED}, Mode.MALFORMED),
    ],
)
def test_nothing_submitted_is_told_by_how_it_ended(changes: dict[str, Any], mode: Mode) -> None:
    assert diagnosis(a_case(Outcome.NO_SUBMISSION, patch="", **changes))[0] is mode


def test_a_limit_with_a_graded_patch_is_named_beside_the_patchs_own_mode() -> None:
    path = DATA / "sweagent" / "submitted-exit_context.traj"
    left, steps = sweagent.read(path, path.stem), sweagent.read_steps(path)
    assert left.submission is not None
    case = a_case(
        stop=left.meaning,
        patch=getattr(left.submission, "diff", ""),
        gold=frozenset({"src/flask/blueprints.py"}),
        steps=steps,
        fixed=Tally(0, 1),
    )
    mode, evidence = diagnosis(case)
    assert (mode, evidence.steps) == (Mode.NOT_FIXED, (1,))
    assert list(notes(case)) == ["it was graded with what it had at context_limit after step 2"]


def test_no_trajectory_is_said_and_claims_no_step(tmp_path: Path) -> None:
    tree = example("partly_fixed") | {"steps": None}
    run = a_run(tmp_path / "run", tree)
    (found,) = diagnose(load(run), run, DEMO)
    assert found.mode is Mode.PARTLY_FIXED
    assert found.evidence.steps == ()
    assert found.notes == ("there is no trajectory",)


ODD_STEP = '{"thought": "", "action": 1, "observation": "", "seconds": null}\n'


@pytest.mark.parametrize("content", ["{", "", '{"action": 1}\n', "null\n", ODD_STEP])
def test_half_a_trajectory_is_said_and_is_not_read(content: str, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", example("circling"))
    path = run.attempt(Attempt("passone__dovetail-35", 1), 1) / "steps.jsonl"
    path.write_text(content)
    (found,) = diagnose(load(run), run, DEMO)
    # Whether it went round in a circle stood in the trajectory alone.
    assert found.mode is Mode.LIMIT
    assert found.notes == ("its trajectory cannot be read",)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"a": 1}', '{"a": {"tests_status": 1}}'])
def test_half_a_report_names_no_test(content: str, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", example("partly_fixed"))
    (run.scoring("passone__cartouche-27", 1) / "report.json").write_text(content)
    (found,) = diagnose(load(run), run, DEMO)
    assert (found.mode, found.evidence.tests) == (Mode.PARTLY_FIXED, ())
    assert found.text.startswith("FAIL_TO_PASS 3/5; edits, as gold does, cartouche/wrapping.py")


def test_a_report_of_another_scoring_names_no_test(tmp_path: Path) -> None:
    tree = example("partly_fixed")
    tests = tree["report"]["passone__cartouche-27"]["tests_status"]["FAIL_TO_PASS"]
    tests["failure"].append(tests["success"].pop())
    run = a_run(tmp_path / "run", tree)
    (found,) = diagnose(load(run), run, DEMO)
    assert found.evidence.tests == ()


# Files of a patch


@pytest.mark.parametrize(
    ("diff", "files"),
    [
        ("", ()),
        ("fix it in a.py", ()),
        (f"--- a/x.py\n+++ b/x.py\n@@ -1,{'9' * 5000} +1 @@\n-a\n", ("x.py",)),
        (diff_of("a.py", "b/c.py"), ("a.py", "b/c.py")),
        ("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n", ("x.py",)),
        (
            "--- x.py\t2024-01-01 00:00\n+++ x.py\t2024-01-02 00:00\n@@ -1 +1 @@\n-a\n+b\n",
            ("x.py",),
        ),
        (
            "diff --git a/old.py b/new.py\nsimilarity index 100%\n"
            "rename from old.py\nrename to new.py\n",
            ("old.py", "new.py"),
        ),
        (
            "diff --git a/x.py b/x.py\ndeleted file mode 100644\n--- a/x.py\n+++ /dev/null\n"
            "@@ -1 +0,0 @@\n-a\n",
            ("x.py",),
        ),
        (
            "diff --git a/x.py b/x.py\nnew file mode 100644\n--- /dev/null\n+++ b/x.py\n"
            "@@ -0,0 +1 @@\n+a\n",
            ("x.py",),
        ),
        # A new empty file and a changed mode have no more than their first lines.
        ("diff --git a/e/__init__.py b/e/__init__.py\nnew file mode 100644\n", ("e/__init__.py",)),
        # What a hunk removes or adds is no header, whatever it looks like.
        (
            "diff --git a/q.sql b/q.sql\n--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n"
            "--- a/remark\n-x\n+++ b/remark\n+y\n",
            ("q.sql",),
        ),
        ("--- a/x.py\r\n+++ b/x.py\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", ("x.py",)),
        ("diff --git a/a b/c.py b/a b/c.py\nnew file mode 100644\n", ("a b/c.py",)),
        (
            'diff --git "a/caf\\303\\251.py" "b/caf\\303\\251.py"\n--- "a/caf\\303\\251.py"\n'
            '+++ "b/caf\\303\\251.py"\n@@ -1 +1 @@\n-a\n+b\n',
            ("café.py",),
        ),
        # Counts that lie hide no further file of git's.
        (
            "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,9 +1,9 @@\n-a\n+b\n"
            + diff_of("y.py"),
            ("x.py", "y.py"),
        ),
    ],
)
def test_the_files_of_a_patch_are_those_that_git_would_touch(
    diff: str, files: Sequence[str]
) -> None:
    assert files_in(diff) == tuple(files)


def test_gold_of_every_instance_touches_files_and_none_of_its_tests() -> None:
    for item in DEMO.values():
        gold, tests = files_in(item.row["patch"]), files_in(item.row["test_patch"])
        assert gold
        assert tests
        assert not [path for path in gold if is_aside(path, (), tests)]
        assert all(is_aside(path, gold, ()) for path in tests)


@pytest.mark.parametrize(
    ("path", "aside"),
    [
        ("tests/test_a.py", True),
        ("sklearn/utils/tests/test_x.py", True),
        ("testing/python/collect.py", True),
        ("test_requests.py", True),
        ("conftest.py", True),
        ("a/tests.py", True),
        ("docs/conf.py", True),
        ("CHANGES", True),
        ("README.md", True),
        # Of the library, in spite of their names.
        ("django/test/client.py", False),
        ("sympy/testing/runtests.py", False),
        ("src/_pytest/mark/structures.py", False),
        ("src/attest.py", False),
        ("latest/a.py", False),
    ],
)
def test_tests_and_documents_are_told_by_their_places(path: str, aside: bool) -> None:
    assert is_aside(path, (), ()) is aside


def test_a_name_that_is_no_text_can_be_kept_all_the_same(tmp_path: Path) -> None:
    tree = example("partly_fixed")
    tree["rows"][0][4]["submission"]["diff"] += diff_of("a\udce9.py", "b\ud83d.py")
    tests = tree["report"]["passone__cartouche-27"]["tests_status"]["FAIL_TO_PASS"]
    tests["failure"][0] = "test_\ud83d\x1b[2J"
    run = a_run(tmp_path / "run", tree)
    results = load(run)
    found = diagnose(results, run, DEMO)
    keep(results, run, found)
    assert kept(run)["attempts"][0]["files"][1:] == ["a?.py", "b?.py"]
    assert found[0].text.isprintable()


@given(st.text(alphabet='ab/+-@ \\"\n1,', max_size=80))
@PROPERTY
def test_no_patch_is_too_odd_to_be_read(text: str) -> None:
    files_in(f"diff --git {text}\n--- {text}\n+++ {text}\n@@ -1 +1 @@{text}")


# Steps of a trajectory

WRITES = [
    "sed -i 's/1/2/' a.py",
    "sed -E -i.bak 's/a > b/c/' src/a.py",
    "cat > src/a.py <<'EOF'\nx = 1\nEOF",
    "cat <<EOF >> src/a.py\nx\nEOF",
    "echo x >> a.py",
    "python3 - <<'EOF'\nfrom pathlib import Path\nPath('a.py').write_text('x')\nEOF",
    "python -c \"open('a.py', 'w').write('x')\"",
    "git apply fix.patch",
    "patch -p1 < fix.patch",
    "cd /testbed && mv a.py b.py",
    "git diff | tee notes.txt",
    "str_replace_editor str_replace /testbed/a.py --old_str a --new_str b",
    "edit 10:12\nx = 1\nend_of_edit",
]
READS = [
    "cat a.py",
    "grep -n 'a > b' a.py 2>/dev/null",
    "python -m pytest -q 2>&1 | tail -3",
    "git diff > patch.txt",
    "git diff -- a.py > /tmp/x.patch && cat /tmp/x.patch",
    "python3 - <<'EOF'\nif 3 > 2:\n    print('a -> b')\nEOF",
    "cat > /tmp/repro.py <<'EOF'\nimport a\nEOF\npython /tmp/repro.py",
    "sed -n '1,40p' a.py",
    "awk '$1 > 3' a.txt",
    "git stash && git checkout a.py",
    "rm -f /tmp/x.py",
    "str_replace_editor view /testbed/a.py",
    "echo 'sed -i s/a/b/ a.py'",
    "",
]


@pytest.mark.parametrize("action", WRITES)
def test_what_writes_into_the_tree_is_an_edit(action: str) -> None:
    assert writes(action)


@pytest.mark.parametrize("action", READS)
def test_what_only_looks_or_writes_elsewhere_is_none(action: str) -> None:
    assert not writes(action)


def test_edits_of_the_recorded_trajectories_are_found() -> None:
    found = {
        path.name: edits_in(read(path))
        for read, pattern in (
            (minitraces.read_steps, "*.traj.json"),
            (sweagent.read_steps, "*.traj"),
        )
        for path in DATA.glob(f"*/{pattern}")
        if edits_in(read(path))
    }
    assert found == {
        "InternalServerError.traj.json": [1],
        "ServiceUnavailableError.traj.json": [1],
        "Submitted.traj.json": [2],
        "exit_command.traj": [1],
        "killed.traj": [2],
        "submitted-exit_context.traj": [1],
        "submitted-exit_cost.traj": [1],
        "submitted-exit_error.traj": [1],
        "submitted.traj": [2],
    }


@pytest.mark.parametrize(
    ("actions", "found"),
    [
        ("aaaa", (1, 4, 1, 4)),
        ("aaa", None),
        ("xababab", (2, 7, 2, 3)),
        ("abab", None),
        ("abcabcabcx", (1, 9, 3, 3)),
        ("abcdabcdabcd", (1, 12, 4, 3)),
        ("abcdeabcdeabcde", None),
        # The longest, and the shorter round of two readings.
        ("aaaaxbcbcbcbc", (6, 13, 2, 4)),
        ("aaaaaaaa", (1, 8, 1, 8)),
        # A reply without an action is no step out of it.
        ("aa aa", (1, 5, 1, 4)),
        ("", None),
    ],
)
def test_a_circle_is_the_same_round_again_and_again(
    actions: str, found: tuple[int, int, int, int] | None
) -> None:
    circle = circle_of([step(action.strip()) for action in actions])
    said = circle and (circle.first, circle.last, circle.period, circle.rounds)
    assert said == found


def test_white_space_makes_no_other_action() -> None:
    assert circle_of([step("ls  -l"), step("ls -l\n"), step(" ls -l"), step("ls\t-l")])


@given(st.text(alphabet="abc ", max_size=30))
@PROPERTY
def test_a_circle_repeats_what_it_says(actions: str) -> None:
    circle = circle_of([step(action.strip()) for action in actions])
    if circle is not None:
        acts = [action for action in actions[circle.first - 1 : circle.last] if action.strip()]
        assert len(acts) >= circle.rounds * circle.period >= 4
        assert all(act == circle.actions[n % circle.period] for n, act in enumerate(acts))


# The command, and the tables

SMALL = ("circling", "broke_others", "partly_fixed", "no_edit")


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return a_run(tmp_path / "small", *map(example, SMALL))


def kept(run: RunDir) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((run.report / "diagnosis.json").read_text())
    return tree


def test_a_run_is_told_attempt_by_attempt_and_in_counts(passone: Passone, run: RunDir) -> None:
    said = passone("diagnose", run.root)
    assert (said.status, said.err) == (0, "")
    blocks = [block.splitlines() for block in said.out.strip().split("\n\n")]
    assert [line.split()[0] for line in blocks[0]] == [
        "instance",
        "passone__dovetail-35",
        "passone__ember-11",
        "passone__cartouche-27",
        "passone__almanac-27",
    ]
    assert "circling" in blocks[0][1]
    assert "steps 4–12 are a round of 3 actions, 3 times: git diff;" in blocks[0][1]
    assert "until context_limit; no step edits a file" in blocks[0][1]
    assert [line.split()[:2] for line in blocks[1][1:]] == [
        ["circling", "1"],
        ["no_edit", "1"],
        ["broke_others", "1"],
        ["partly_fixed", "1"],
    ]
    assert "It fixed all, and broke tests that had passed." in blocks[1][3]
    assert blocks[2][0].split() == ["repo", "circling", "no_edit", "broke_others", "partly_fixed"]
    assert [line.split() for line in blocks[2][1:]] == [
        ["passone/almanac", "0", "1", "0", "0"],
        ["passone/cartouche", "0", "0", "0", "1"],
        ["passone/dovetail", "1", "0", "0", "0"],
        ["passone/ember", "0", "0", "1", "0"],
    ]
    assert [line[:15] for line in blocks[3][1:]] == ["<15 min fix    ", "15 min - 1 hour"]
    assert blocks[4] == ["small: 4 attempts, 4 blamed on the model, each with one mode"]


def test_json_and_a_file_hold_what_the_run_keeps(passone: Passone, run: RunDir) -> None:
    said = passone("diagnose", run.root, "--json")
    assert json.loads(said.out) == kept(run)
    item = next(item for item in kept(run)["attempts"] if item["mode"] == "broke_others")
    assert item["files"] == item["gold"] == ["ember/cache.py"]
    assert item["tests"] == [
        "test_new_value_is_not_a_deletion "
        "(tests.test_stats.CacheStatsTests.test_new_value_is_not_a_deletion)"
    ]
    assert item["steps"] == [3]
    assert kept(run)["counts"]["all"] == {
        "all": {"circling": 1, "no_edit": 1, "broke_others": 1, "partly_fixed": 1}
    }
    said = passone("diagnose", run.root, "-o", "told.txt")
    assert said.out == "told.txt: small: 4 attempts, 4 blamed on the model, each with one mode\n"
    assert "circling" in Path("told.txt").read_text()
    said = passone("diagnose", run.root, "-o", "told.txt/x")
    assert (said.status, said.out) == (2, "")
    assert "told.txt/x: cannot be written" in said.err


def test_two_runs_stand_side_by_side_with_where_they_differ(
    passone: Passone, run: RunDir, tmp_path: Path
) -> None:
    other = a_run(tmp_path / "other", *map(example, ("circling", "only_tests", "limit")))
    said = passone("diagnose", run.root, other.root)
    assert said.status == 0, said.err
    blocks = [block.splitlines() for block in said.out.strip().split("\n\n")]
    assert blocks[0][0].split() == ["mode", "small", "other", "it", "means"]
    assert [line.split()[:3] for line in blocks[0][1:3]] == [
        ["circling", "1", "1"],
        ["limit", "0", "1"],
    ]
    assert blocks[1][3].split()[:4] == ["passone/dovetail", "1", "/", "1"]
    assert [line.split() for line in blocks[3][1:]] == [
        ["passone__ember-11", "broke_others", "only_tests"]
    ]
    assert "only in small: 2 instances, not compared" in said.out
    assert "only in other: 1 instance, not compared" in said.out
    tree = json.loads(passone("diagnose", run.root, other.root, "--json").out)
    assert tree["differ"] == [
        {"instance": "passone__ember-11", "modes": [["broke_others"], ["only_tests"]]}
    ]
    assert [item["run"] for item in tree["runs"]] == ["small", "other"]
    same = passone("diagnose", run.root, run.root)
    assert "no instance of both runs has other modes in one than in the other" in same.out
    # Of one name, they are told apart by their directories.
    copy = shutil.copytree(run.root, tmp_path / "copy")
    both = passone("diagnose", run.root, copy).out.splitlines()[0]
    assert both.split()[:3] == ["mode", str(run.root), str(copy)]


def diagnosed(root: Path) -> tuple[Results, Any]:
    place = RunDir(root)
    results = load(place)
    return results, diagnose(results, place, DEMO)


def test_the_order_of_attempts_makes_no_difference(tmp_path: Path) -> None:
    trees = [example("broke_others"), example("only_tests")]
    one, other = a_run(tmp_path / "one", *trees), a_run(tmp_path / "other", *trees[::-1])
    assert differing(diagnosed(one.root), diagnosed(other.root)) == []
    third = a_run(tmp_path / "third", trees[0], trees[0])
    assert [pair[0] for pair in differing(diagnosed(one.root), diagnosed(third.root))] == [
        "passone__ember-11"
    ]


def test_difficulties_rise() -> None:
    given_ = ["unknown", ">4 hours", "15 min - 1 hour", "1-4 hours", "<15 min fix"]
    assert in_order(given_) == [*dataset_order(), "unknown"]


def dataset_order() -> list[str]:
    return ["<15 min fix", "15 min - 1 hour", "1-4 hours", ">4 hours"]


def csv_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_table_has_the_modes_once_somebody_has_looked(passone: Passone, run: RunDir) -> None:
    argv = ("table", run.root, "--by", "attempt", "--format", "csv")
    before = passone(*argv)
    assert {row["diagnosis"] for row in csv_of(before.out)} == {""}
    assert before.err == (
        f"note: 4 attempts blamed on the model not diagnosed: passone diagnose {run.root}\n"
    )
    passone("diagnose", run.root)
    after = passone(*argv)
    assert after.err == ""
    assert [row["diagnosis"] for row in csv_of(after.out)] == list(SMALL)


def test_what_was_tried_again_since_has_no_mode_in_the_table(passone: Passone, run: RunDir) -> None:
    passone("diagnose", run.root)
    tree = example("circling")
    with Ledger(run.ledger) as ledger:
        kind, _, number, name, body = tree["rows"][0]
        value = TYPES[name].validate_python(body)
        ledger.append(Kind(kind), Attempt(tree["instance"], 1), number + 1, value)
    said = passone("table", run.root, "--by", "attempt", "--format", "csv")
    assert [row["diagnosis"] for row in csv_of(said.out)] == ["", *SMALL[1:]]


@pytest.mark.parametrize("content", ["", "[]", '{"attempts": [{}]}', '{"attempts": [1]}'])
def test_a_diagnosis_that_cannot_be_read_is_as_none(
    content: str, passone: Passone, run: RunDir
) -> None:
    run.write(run.report / "diagnosis.json", content)
    said = passone("table", run.root, "--by", "attempt")
    assert said.status == 0
    assert "not diagnosed" in said.err


# What may be wrong with a run


def test_what_is_no_run_is_refused(passone: Passone, tmp_path: Path) -> None:
    said = passone("diagnose", tmp_path / "nowhere")
    assert said.status == 2
    assert f"{tmp_path / 'nowhere'}: no run is there" in said.err


def test_a_run_that_goes_on_is_told_as_far_as_it_is(passone: Passone, run: RunDir) -> None:
    plan = json.loads(run.plan.read_text())
    run.plan.write_text(json.dumps(plan | {"attempts": 2}))
    with run.held():
        said = passone("diagnose", run.root)
    assert said.status == 0
    assert "small: partial (4 pending) · 8 attempts, 4 blamed on the model" in said.out


def test_a_ledger_cut_in_half_is_refused(passone: Passone, run: RunDir) -> None:
    content = run.ledger.read_bytes()
    run.ledger.write_bytes(content[: len(content) // 2])
    said = passone("diagnose", run.root)
    assert said.status == 2
    assert f"{run.ledger}: is no ledger of this version" in said.err


def test_without_trajectories_patch_and_verdict_still_tell(passone: Passone, run: RunDir) -> None:
    shutil.rmtree(run.root / "attempts")
    passone("diagnose", run.root)
    items = kept(run)["attempts"]
    assert [item["mode"] for item in items] == ["limit", "broke_others", "partly_fixed", "no_edit"]
    assert {tuple(item["notes"]) for item in items} == {("there is no trajectory",)}


def test_a_run_that_cannot_be_written_is_told_all_the_same(passone: Passone, run: RunDir) -> None:
    run.report.write_text("a file, where a directory should be")
    said = passone("diagnose", run.root)
    assert said.status == 0
    assert "circling" in said.out
    assert said.err.startswith("note: the tables will not have it: ")


def test_an_instance_that_left_the_dataset_is_refused(passone: Passone, run: RunDir) -> None:
    plan = json.loads(run.plan.read_text())
    plan["selection"]["ids"].append("passone__gone-1")
    plan["repos"]["passone__gone-1"] = "passone/gone"
    plan["selection"]["fingerprint"] = "0" * 64
    run.plan.write_text(json.dumps(plan))
    said = passone("diagnose", run.root)
    assert said.status == 2
    assert "has changed since this run was made" in said.err


def test_the_reliability_study_is_diagnosed_without_trajectories(
    passone: Passone, shared: Path
) -> None:
    study = shared / "reliability"
    passone(
        "score",
        *(study / f"preds.run{number}.json" for number in range(1, 6)),
        *("--dataset", shared / "verified.parquet"),
        *("--verdicts", study / "per_run_results.json"),
        *("--run", "reliability"),
    )
    place = RunDir(Path("logs/reliability"))
    tree = kept(place)
    counts = tree["counts"]["all"]["all"]
    # 500 attempts, of which 379 are resolved.
    assert sum(counts.values()) == len(tree["attempts"]) == 121
    assert counts == {"no_edit": 4, "wrong_place": 21, "right_file": 96}
    assert all("there is no trajectory" in item["notes"] for item in tree["attempts"])
    assert list(tree["counts"]["difficulty"]) == dataset_order()
    rows = csv_of((place.report / "attempts.csv").read_text())
    modes = Counter(row["diagnosis"] for row in rows)
    assert modes == {"": 379, **counts}
    assert all((row["blame"] == "model") == bool(row["diagnosis"]) for row in rows)
