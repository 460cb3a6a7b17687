"""Predictions that any agent made: all forms, all odd inputs, and what its own files say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.agents.predictions import PredictionsAgent, read_file
from pipeline.domain import Attempt, Cause, Departure, Limits, Patch, Rollout, Stop, Usage
from pipeline.outcomes import InfraError, UserError, attribute
from tests.tries import an_assignment, an_instance

DATA = Path(__file__).parent / "data"
DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n"


def entry(instance_id: str, patch: object = DIFF, **more: object) -> dict[str, object]:
    return {"instance_id": instance_id, "model_name_or_path": "m", "model_patch": patch, **more}


def written(tmp_path: Path, name: str, content: object) -> Path:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8", newline="")
    return path


def lines(*entries: object, end: str = "\n") -> str:
    return "".join(json.dumps(item) + end for item in entries)


TWO = [entry("a__b-1"), entry("a__b-2", "other")]
FORMS: dict[str, tuple[str, object]] = {
    "list": ("p.json", TWO),
    "object": ("p.json", {str(item["instance_id"]): item for item in TWO}),
    "object without inner ids": (
        "p.json",
        {"a__b-1": {"model_patch": DIFF}, "a__b-2": {"model_patch": "other"}},
    ),
    "jsonl": ("p.jsonl", lines(*TWO)),
    "jsonl without a last newline": ("p.jsonl", lines(*TWO).rstrip("\n")),
    "jsonl with blank lines": ("p.jsonl", "\n\n" + lines(*TWO, end="\n\n  \n") + "\n"),
    "jsonl with CRLF": ("p.jsonl", lines(*TWO, end="\r\n")),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(form: str, tmp_path: Path) -> None:
    name, content = FORMS[form]
    file = read_file(written(tmp_path, name, content))
    assert file.patches == {"a__b-1": DIFF, "a__b-2": "other"}
    assert len(file.sha256) == 64


@pytest.mark.parametrize(
    ("more", "model"),
    [
        ({"model_name_or_path": "openrouter/anthropic/claude"}, "openrouter/anthropic/claude"),
        ({"model_name_or_path": None}, "unknown"),
        ({"model_name_or_path": ""}, "unknown"),
        ({"model_name_or_path": 7}, "7"),
    ],
)
def test_a_model_name_may_hold_anything_or_be_missing(
    more: dict[str, object], model: str, tmp_path: Path
) -> None:
    assert read_file(written(tmp_path, "p.json", [entry("a__b-1", **more)])).model == model
    bare = {"instance_id": "a__b-1", "model_patch": DIFF}
    assert read_file(written(tmp_path, "p.json", [bare])).model == "unknown"


def test_several_model_names_are_all_named(tmp_path: Path) -> None:
    both = [entry("a__b-1", model_name_or_path="y"), entry("a__b-2", model_name_or_path="x")]
    assert read_file(written(tmp_path, "p.json", both)).model == "x, y"


@pytest.mark.parametrize("patch", [None, "", "\n", " \n\t\n"])
def test_a_null_or_empty_patch_is_no_submission(patch: str | None, tmp_path: Path) -> None:
    file = read_file(written(tmp_path, "p.json", [entry("a__b-1", patch)]))
    departure = left(PredictionsAgent([file]), tmp_path)
    assert departure.submission is None
    assert departure.meaning is None
    assert departure.exit_status == "not recorded"


@pytest.mark.parametrize(
    "patch",
    [
        "diff --git a/x b/x\r\n-old\r\n+new\r\n",
        "diff --git a/x b/x\n+no newline at the end",
        "diff --git a/i.png b/i.png\nGIT binary patch\nliteral 3\nKcmZ?\n",
        "diff --git a/__pycache__/x.pyc b/__pycache__/x.pyc\nBinary files differ\n",
        "Here is how I would solve it: change line 3.",
        "+tab\tform\x0cfeed\x1c\x85\u2028\u2029caf\u00e9 \U0001f600\n",
        "+nul\x00\n",
    ],
    ids=["crlf", "no newline", "binary", "pyc", "prose", "separators", "nul"],
)
@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_patch_is_kept_to_the_letter(
    patch: str, name: str, ascii_only: bool, tmp_path: Path
) -> None:
    item = json.dumps(entry("a__b-1", patch), ensure_ascii=ascii_only)
    text = f"{item}\n" if name == "p.jsonl" else f"[{item}]"
    assert read_file(written(tmp_path, name, text)).patches == {"a__b-1": patch}


def test_half_a_surrogate_pair_can_be_written_like_any_patch(tmp_path: Path) -> None:
    path = written(tmp_path, "p.json", '[{"instance_id": "a__b-1", "model_patch": "+\\ud83d\\n"}]')
    patch = read_file(path).patches["a__b-1"]
    assert patch is not None
    assert patch.encode("utf-8", "surrogateescape") == b"+\xed\xa0\xbd\n"


HALF = json.dumps(TWO)
BAD: dict[str, tuple[str, object, str]] = {
    # name: file, content, what is said (after the path)
    "list cut in half": ("p.json", HALF[: len(HALF) // 2], "not JSON .* cut off?"),
    "object cut in half": ("p.json", json.dumps({"a__b-1": TWO[0]})[:60], "not JSON .* cut off?"),
    "jsonl cut in half": ("p.jsonl", lines(*TWO)[:-30], "line 2: not JSON .* cut off?"),
    "empty file": ("p.json", "", "not JSON"),
    "empty jsonl": ("p.jsonl", "\n\n", "holds no predictions"),
    "empty list": ("p.json", [], "holds no predictions"),
    "empty object": ("p.json", {}, "holds no predictions"),
    "number": ("p.json", 3, "expected a JSON list or object"),
    "null": ("p.json", "null", "expected a JSON list or object"),
    "list of ids": ("p.json", ["a__b-1"], "entry 1: expected an object with instance_id"),
    "null entry": ("p.jsonl", "null\n", "line 1: expected an object with instance_id"),
    "no id": ("p.json", [{"model_patch": DIFF}], "entry 1: expected an object with instance_id"),
    "number as id": ("p.json", [{"instance_id": 3, "model_patch": ""}], "entry 1: expected"),
    "object of texts": ("p.json", {"a__b-1": DIFF}, "key 'a__b-1': expected an object"),
    "no patch": ("p.json", [{"instance_id": "a__b-1"}], r"\(a__b-1\): no model_patch; null means"),
    "patch of another type": ("p.json", [entry("a__b-1", 3)], "model_patch is no text"),
    "patch as a list": ("p.jsonl", lines(entry("a__b-1", [DIFF])), "model_patch is no text"),
    "not UTF-8": ("p.json", b'[{"instance_id": "caf\xe9"}]', "cannot be read"),
    "twice in a list": (
        "p.json",
        [*TWO, entry("a__b-1")],
        "entry 3: a second prediction for a__b-1; k attempts are k files",
    ),
    "twice in jsonl": (
        "p.jsonl",
        lines(*TWO) + "\n" + lines(entry("a__b-2")),
        "line 4: a second prediction for a__b-2; k attempts are k files",
    ),
    "twice in an object": (
        "p.json",
        f'{{"a__b-1": {json.dumps(TWO[0])}, "a__b-1": {json.dumps(TWO[1])}}}',
        "a second prediction for a__b-1.*k attempts are k files",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_an_odd_file_is_refused_with_thing_place_and_remedy(name: str, tmp_path: Path) -> None:
    file, content, message = BAD[name]
    path = written(tmp_path, file, content)
    before = path.read_bytes()
    with pytest.raises(UserError, match=message) as caught:
        read_file(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.json: cannot be read"):
        read_file(tmp_path / "nowhere.json")
    with pytest.raises(UserError, match="cannot be read"):
        read_file(tmp_path)


# One attempt of one file.


def left(
    agent: PredictionsAgent, tmp_path: Path, *, instance_id: str = "a__b-1", number: int = 1
) -> Departure:
    assignment = an_assignment(tmp_path, None, instance=an_instance(id=instance_id))
    from_file = {name: getattr(assignment, name) for name in assignment.__slots__}
    from_file["attempt"] = Attempt(instance_id, number)
    return agent.solve(type(assignment)(**from_file))


def test_the_kth_attempt_is_what_the_kth_file_says(tmp_path: Path) -> None:
    files = [
        read_file(written(tmp_path, f"{n}.json", [entry("a__b-1", f"patch {n}")])) for n in (1, 2)
    ]
    agent = PredictionsAgent(files)
    patches = [left(agent, tmp_path, number=number).submission for number in (1, 2)]
    assert patches == [Patch("patch 1"), Patch("patch 2")]


def test_an_absent_id_is_missing_and_not_failed(tmp_path: Path) -> None:
    file = read_file(written(tmp_path, "preds.run1.json", [entry("a__b-1")]))
    with pytest.raises(
        InfraError, match=r"preds\.run1\.json has no prediction for a__b-2"
    ) as caught:
        left(PredictionsAgent([file]), tmp_path, instance_id="a__b-2")
    assert caught.value.cause is Cause.UNKNOWN


# The agent's own files.

MINI, SWE = "passone__sample-1", "pallets__flask-5014"


def own_files(tmp_path: Path, agent: str, sample: str) -> Path:
    """A directory as the agent leaves it, with one instance in it."""
    root = tmp_path / "trajectories"
    instance_id = MINI if agent == "miniswe" else SWE
    (root / instance_id).mkdir(parents=True)
    suffix = ".traj.json" if agent == "miniswe" else ".traj"
    source = DATA / agent / f"{sample}{suffix}"
    if source.exists():
        shutil.copy(source, root / instance_id / f"{instance_id}{suffix}")
    statuses = DATA / agent / f"{sample}.exit_statuses.yaml"
    name = (
        "exit_statuses_1764480000.5.yaml" if agent == "miniswe" else "run_batch_exit_statuses.yaml"
    )
    if statuses.exists():
        shutil.copy(statuses, root / name)
    return root


def imported(tmp_path: Path, agent: str, sample: str, patch: str | None) -> Rollout | Cause:
    """What an attempt comes to that this agent left like this."""
    instance_id = MINI if agent == "miniswe" else SWE
    file = read_file(written(tmp_path, "p.json", [entry(instance_id, patch)]))
    solver = PredictionsAgent([file], [own_files(tmp_path, agent, sample)])
    solver.preflight()
    departure = left(solver, tmp_path, instance_id=instance_id)
    try:
        return attribute(
            departure,
            ending=None,
            usage=Usage(),
            limits=Limits(),
            seconds=0,
            waited_seconds=0,
            asked=solver.asks_model,
        )
    except InfraError as error:
        return error.cause


@pytest.mark.parametrize(
    ("agent", "sample", "patch", "expected"),
    [
        ("miniswe", "Submitted", DIFF, Stop.SUBMITTED),
        ("miniswe", "Submitted", "", Stop.SUBMITTED),
        ("miniswe", "LimitsExceeded", "", Stop.STEP_LIMIT),
        ("miniswe", "TimeExceeded", "", Stop.TIME_LIMIT),
        ("miniswe", "ContextWindowExceededError", "", Stop.CONTEXT_LIMIT),
        ("miniswe", "RepeatedFormatError", "", Stop.MALFORMED),
        # Today's tools turn an outage into a permanent zero. These are none.
        ("miniswe", "AuthenticationError", "", Cause.CREDENTIALS),
        ("miniswe", "ServiceUnavailableError", "", Cause.ENDPOINT),
        ("miniswe", "RateLimitError", "", Cause.ENDPOINT),
        ("miniswe", "IndexError", "", Cause.UNKNOWN),
        ("miniswe", "CalledProcessError", "", Cause.SANDBOX),
        ("miniswe", "FileNotFoundError", "", Cause.SANDBOX),
        ("sweagent", "submitted", DIFF, Stop.SUBMITTED),
        ("sweagent", "submitted-exit_cost", DIFF, Stop.STEP_LIMIT),
        ("sweagent", "submitted-exit_context", DIFF, Stop.CONTEXT_LIMIT),
        ("sweagent", "exit_format", "", Stop.MALFORMED),
        ("sweagent", "exit_forfeit", "", Stop.GAVE_UP),
        # A diff that it submitted by itself after a fault is not the model's.
        ("sweagent", "submitted-exit_error", DIFF, Cause.UNKNOWN),
        ("sweagent", "exit_error", None, Cause.UNKNOWN),
        ("sweagent", "killed", "", Cause.UNKNOWN),
        ("sweagent", "Uncaught-DockerPullError", "", Cause.IMAGE),
        ("sweagent", "Uncaught-ClientConnectorError", None, Cause.SANDBOX),
    ],
)
def test_the_agents_own_files_say_how_it_left(
    agent: str, sample: str, patch: str | None, expected: Stop | Cause, tmp_path: Path
) -> None:
    found = imported(tmp_path, agent, sample, patch)
    if isinstance(found, Rollout):
        assert found.stop is expected
        assert found.submission == Patch.of(patch)
        assert found.steps >= 1
    else:
        assert found is expected


def test_an_instance_without_own_files_stays_of_unknown_exit(tmp_path: Path) -> None:
    file = read_file(written(tmp_path, "p.json", [entry("a__b-1", "")]))
    agent = PredictionsAgent([file], [own_files(tmp_path, "miniswe", "Submitted")])
    departure = left(agent, tmp_path)
    assert departure.meaning is None


def test_half_a_trajectory_is_a_fault(tmp_path: Path) -> None:
    root = own_files(tmp_path, "miniswe", "Submitted")
    path = next(root.rglob("*.traj.json"))
    path.write_bytes(path.read_bytes()[:200])
    file = read_file(written(tmp_path, "p.json", [entry(MINI)]))
    with pytest.raises(InfraError) as caught:
        left(PredictionsAgent([file], [root]), tmp_path, instance_id=MINI)
    assert caught.value.cause is Cause.AGENT_CRASH


def test_a_fault_outranks_an_absent_prediction(tmp_path: Path) -> None:
    """SWE-agent leaves out what broke; its own files know what did."""
    file = read_file(written(tmp_path, "p.json", [entry("a__b-1")]))
    agent = PredictionsAgent([file], [own_files(tmp_path, "sweagent", "Uncaught-DockerPullError")])
    assert left(agent, tmp_path, instance_id=SWE).meaning is Cause.IMAGE


@pytest.mark.parametrize(
    ("directories", "message"),
    [
        (lambda root: [root / "nowhere"], "no such directory"),
        (lambda root: [root, root, root], "3 directories, 2 files; give one each"),
        (lambda root: [root], "one directory cannot tell the attempts apart"),
    ],
)
def test_trajectories_that_match_no_files_are_refused(
    directories: Callable[[Path], list[Path]], message: str, tmp_path: Path
) -> None:
    files = [read_file(written(tmp_path, f"{n}.json", [entry("a__b-1")])) for n in (1, 2)]
    with pytest.raises(UserError, match=message) as caught:
        PredictionsAgent(files, directories(tmp_path)).preflight()
    assert "--trajectories" in str(caught.value)
