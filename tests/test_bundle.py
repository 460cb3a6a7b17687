"""A run in one file: the same bytes each time, every byte of it held, every number recomputed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.bundle import Manifest, Member, Part, belongs, part_of, unpack, write
from pipeline.bundle.archive import TRAILER, TRAILER_BYTES, head_of
from pipeline.bundle.checks import compare_lines, compare_tables, compare_trees, same
from pipeline.domain import Attempt
from pipeline.gateway.tapes import lines_of
from pipeline.ledger import Ledger
from pipeline.outcomes import UserError
from pipeline.rundir import RunDir
from tests.command import Passone, Said
from tests.test_cli import IDS, ROWS, file_of, prediction, verdicts_of

PASSONE = Path(sys.executable).with_name("passone")
Members = dict[str, bytes]
IDS_OF_RUN = ("passone__almanac-27", "passone__ballast-42", "passone__dovetail-35")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """The demo: agent, gateway and grader are real; the words are scripted."""
    logs = tmp_path_factory.mktemp("logs")
    done = subprocess.run(
        [
            *(str(PASSONE), "demo", "--size", "3", "--attempts", "3"),
            *("--sandbox", "local", "--logs", str(logs), "-q"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PASSONE_CACHE": str(logs / "cache")},
    )
    [plan] = logs.glob("demo*/plan.json")
    assert (plan.parent / "report").is_dir(), done.stderr
    return RunDir(plan.parent)


@pytest.fixture
def file(run: RunDir, passone: Passone) -> Path:
    said = passone("bundle", run.root, "-o", "run.passone")
    assert said.status == 0, said.err
    return Path("run.passone")


def opened(path: Path) -> tuple[Manifest, Members]:
    """What is in a bundle, as any tar would see it."""
    with path.open("rb") as packed:
        content = zstandard.ZstdDecompressor().stream_reader(packed).read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        found: Members = {}
        for info in tar:
            source = tar.extractfile(info)
            assert source is not None
            found[info.name] = source.read()
    return Manifest.parse(found.pop("MANIFEST.json")), found


def written(path: Path, manifest: Manifest, members: Members) -> Path:
    with path.open("wb") as target:
        write(target, manifest, lambda name: [members[name]])
    return path


def forged(path: Path, members: Members, manifest: Manifest) -> Path:
    """With a manifest that says what stands there: no hash is wrong."""
    listed = [
        Member(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in sorted(members.items())
    ]
    return written(path, replace(manifest, members=listed), members)


def packed(path: Path, *blocks: bytes) -> Path:
    """A file of these blocks, sealed as a bundle is."""
    frame = zstandard.ZstdCompressor().compress(b"".join(blocks) + bytes(1024))
    path.write_bytes(frame + TRAILER + hashlib.sha256(frame).digest())
    return path


def block(name: str, content: bytes) -> bytes:
    return head_of(name, len(content)) + content + bytes(-len(content) % 512)


def digest_in(said: Said) -> str:
    return said.out.partition("digest ")[2].partition(" ")[0]


# What everybody does


def test_a_bundle_is_verified_with_a_line_for_every_kind(file: Path, passone: Passone) -> None:
    said = passone("verify", file)
    assert said.status == 0, said.out
    lines = said.out.splitlines()
    assert lines[-1].startswith("verified: ")
    assert lines[-1].endswith(" checks, 0 differ")
    kinds = {line.strip().rpartition(" equal")[0].rpartition(" ")[0] for line in lines[1:-1]}
    assert {
        *("files by MANIFEST.json", "plan", "verdicts", "official reports", "outcomes", "patches"),
        *("requests, tokens and cost on tape", "requests, tokens and cost", "counts", "votes"),
        *("pass@1, range and intervals", "pass@k and other estimates", "headline", "diagnosis"),
        *("attempts.csv", "instances.csv", "table.md", "table.tex", "preds.3.jsonl"),
    } <= kinds
    # Six attempts with a submission, and gold at three places.
    [verdicts] = [line for line in lines if line.startswith("  verdicts ")]
    assert int(verdicts.split()[1].partition("/")[2]) >= 9


def test_both_commands_say_one_digest_and_verify_holds_a_quoted_one(
    run: RunDir, passone: Passone
) -> None:
    digest = digest_in(passone("bundle", run.root, "-o", "run.passone"))
    assert len(digest) == 16
    said = passone("verify", "run.passone", "--digest", digest)
    assert (said.status, digest_in(said)) == (0, digest)
    tree = json.loads(passone("verify", "run.passone", "--json").out)
    assert tree["digest"].startswith(digest)
    assert tree["verified"] is True
    said = passone("verify", "run.passone", "--digest", "0" * 16)
    assert said.status == 1
    assert f"digest: is {digest}, quoted is {'0' * 16}" in said.out
    assert passone("verify", "run.passone", "--digest", "0").status == 2


def test_the_same_run_gives_the_same_bytes(
    run: RunDir, file: Path, passone: Passone, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere" / "under another name"
    shutil.copytree(run.root, copy)
    for look in ("table", "status", "diagnose"):
        assert passone(look, copy).status == 0
    (copy / "report" / "summary.json").unlink()
    os.utime(copy / "plan.json", (0, 0))
    (copy / "plan.json").chmod(0o600)
    assert passone("bundle", copy, "-o", "again.passone").status == 0
    assert Path("again.passone").read_bytes() == file.read_bytes()
    # Of a bundle, too.
    assert passone("bundle", file, "-o", "third.passone").status == 0
    assert Path("third.passone").read_bytes() == file.read_bytes()


def test_nothing_in_it_is_of_the_machine_that_bundled_it(run: RunDir, file: Path) -> None:
    manifest, members = opened(file)
    assert not {"label", "lock", "ledger.sqlite"} & members.keys()
    made = [manifest.to_bytes(), *(c for name, c in members.items() if name[:6] != "attemp")]
    for word in (str(run.root.parent), socket.gethostname(), str(Path.cwd()), str(os.getpid())):
        if len(word) > 5:
            assert not [content for content in made if word.encode() in content]
    with file.open("rb") as source:
        content = zstandard.ZstdDecompressor().stream_reader(source).read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        infos = list(tar)
    assert {(i.mtime, i.uid, i.gid, i.uname, i.gname, i.mode) for i in infos} == {
        (0, 0, 0, "", "", 0o644)
    }
    names = [info.name for info in infos]
    assert names == ["MANIFEST.json", *sorted(names[1:])]


def test_a_ledger_out_of_a_bundle_has_the_same_records(run: RunDir, file: Path) -> None:
    place = Path("restored.sqlite")
    _, members = opened(file)
    with Ledger(place) as ledger:
        for table in ("meta", "rows"):
            lines = members[f"ledger/{table}.jsonl"].splitlines()
            ledger.restore(table, map(json.loads, lines))
        with Ledger(run.ledger, read_only=True) as original:
            for table in ("meta", "rows"):
                query = f"SELECT * FROM {table}"
                assert ledger.ask(query) == original.ask(query)


def test_what_lies_in_a_run_and_is_not_of_it_stays_there(
    run: RunDir, passone: Passone, tmp_path: Path
) -> None:
    shutil.copytree(run.root, tmp_path / "copy")
    (tmp_path / "copy" / "notes.txt").write_text("mine")
    said = passone("bundle", tmp_path / "copy", "-o", "run.passone")
    assert "note: left out: notes.txt" in said.err
    assert "notes.txt" not in opened(Path("run.passone"))[1]


# One altered byte


def faults(content: bytes) -> tuple[str, ...]:
    path = Path("altered.passone")
    path.write_bytes(content)
    try:
        return unpack(path, None).faults
    except UserError as error:
        return (f"refused: {error}",)


def test_one_altered_byte_is_found_wherever_it_is(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()
    assert faults(content) == ()
    rng = random.Random(0)
    places = {*range(30), *rng.sample(range(len(content)), 300)}
    places |= set(range(len(content) - TRAILER_BYTES, len(content)))
    for place in places:
        altered = bytearray(content)
        altered[place] ^= 1 << rng.randrange(8)
        assert faults(bytes(altered)), place


def test_one_altered_byte_of_a_member_is_found_and_named(file: Path, passone: Passone) -> None:
    _, members = opened(file)
    name = next(name for name in members if name.endswith("agent.log"))
    content = file.read_bytes()
    # The packed form hides where: so the plain one is altered, and packed again.
    body = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content)).read()
    at = body.index(members[name]) + 5
    frame = zstandard.ZstdCompressor().compress(body[:at] + b"\0" + body[at + 1 :])
    Path("a.passone").write_bytes(frame + TRAILER + hashlib.sha256(frame).digest())
    said = passone("verify", "a.passone")
    assert said.status == 1
    assert f"differs: {name}: is altered\n" in said.out
    assert said.out.splitlines()[-1].startswith("not verified: ")
    assert "1 differ: files by MANIFEST.json" in said.out
    assert passone("status", "a.passone").status == 2


def test_a_file_that_is_cut_short_is_found(file: Path, passone: Passone) -> None:
    content = file.read_bytes()
    for size in (8, 100, len(content) // 2, len(content) - 60, len(content) - 1):
        assert faults(content[:size]), size
    Path("cut.passone").write_bytes(content[: len(content) // 2])
    said = passone("verify", "cut.passone")
    assert said.status == 1
    assert "at or after attempts/" in said.out
    assert "were not reached" in said.out
    assert faults(content + b"x")
    assert faults(content + content)


@pytest.mark.parametrize("what", ["altered", "missing", "added"])
def test_altered_missing_and_added_members_are_named(
    what: str, file: Path, passone: Passone
) -> None:
    manifest, members = opened(file)
    shown = dict(members)
    if what == "altered":
        shown["plan.json"] = members["plan.json"] + b" "
    elif what == "missing":
        del shown["plan.json"]
    else:
        shown["scoring/more"] = b"more"
    blocks = [block("MANIFEST.json", manifest.to_bytes())]
    blocks += [block(name, content) for name, content in shown.items()]
    said = passone("verify", packed(Path("a.passone"), *blocks))
    assert said.status == 1
    name = "scoring/more" if what == "added" else "plan.json"
    assert f"differs: {name}: " in said.out
    assert what in said.out


# A number that was altered together with its hash


def edited(members: Members, name: str, *changes: tuple[str, str]) -> Members:
    text = members[name].decode()
    for old, new in changes:
        assert old in text, (name, old)
        text = text.replace(old, new, 1)
    return members | {name: text.encode()}


def ledger_with(members: Members, kind: str, change: Callable[[dict[str, Any]], bool]) -> Members:
    """With the first record of a kind for which `change` says that it changed it."""
    lines = members["ledger/rows.jsonl"].decode().splitlines()
    for place, line in enumerate(lines):
        record = json.loads(line)
        if record["kind"] == kind and change(record["body"]):
            lines[place] = json.dumps(record)
            text = "".join(f"{line}\n" for line in lines)
            return members | {"ledger/rows.jsonl": text.encode()}
    raise AssertionError(kind)


def outcome(members: Members) -> Members:
    def change(body: dict[str, Any]) -> bool:
        passed = bool(body["outcome"] == "resolved")
        if passed:
            body |= {"outcome": "unresolved", "blame": "model"}
        return passed

    return ledger_with(members, "settlement", change)


def finding(members: Members) -> Members:
    def change(body: dict[str, Any]) -> bool:
        passed = bool(body.get("finding") == "resolved")
        if passed:
            body["finding"] = "unresolved"
        return passed

    return ledger_with(members, "verdict", change)


def finding_and_outcome(members: Members) -> Members:
    return outcome(finding(members))


def tokens(members: Members) -> Members:
    def change(body: dict[str, Any]) -> bool:
        body["usage"]["output_tokens"] //= 2
        return True

    return ledger_with(members, "rollout", change)


def controls(members: Members) -> Members:
    def change(body: dict[str, Any]) -> bool:
        body["gold"][0]["finding"] = "unresolved"
        return True

    return ledger_with(members, "control", change)


def an_attempt_less(members: Members) -> Members:
    return edited(members, "plan.json", ('"attempts": 3', '"attempts": 2'))


def a_row_less(members: Members) -> Members:
    lines = members["ledger/rows.jsonl"].splitlines(keepends=True)
    return members | {"ledger/rows.jsonl": b"".join([*lines[:5], *lines[6:]])}


def a_count(members: Members) -> Members:
    tree = json.loads(members["report/summary.json"])
    tree["outcomes"]["resolved"] += 1
    return members | {"report/summary.json": json.dumps(tree).encode()}


def a_rate(members: Members) -> Members:
    tree = json.loads(members["report/summary.json"])
    tree["pass_at_1"]["all_ci95"][1] += 0.001
    return members | {"report/summary.json": json.dumps(tree).encode()}


def a_cell(members: Members) -> Members:
    rows = list(csv.reader(io.StringIO(members["report/attempts.csv"].decode())))
    rows[2][rows[0].index("requests")] = "1"
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return members | {"report/attempts.csv": text.getvalue().encode()}


def a_report(members: Members) -> Members:
    name = next(n for n, c in members.items() if n.endswith("report.json") and b"true" in c)
    return edited(members, name, ('"resolved": true', '"resolved": false'))


def a_log(members: Members) -> Members:
    name = next(
        name
        for name, content in members.items()
        if name.endswith("/1/test_output.txt") and b" ok\n" in content
    )
    return members | {name: members[name].replace(b" ok\n", b" FAIL\n")}


def a_patch(members: Members) -> Members:
    name = next(name for name in members if name.endswith("try-1/patch.diff"))
    return members | {name: members[name] + b"\n"}


def a_mode(members: Members) -> Members:
    tree = json.loads(members["report/diagnosis.json"])
    tree["attempts"][0]["mode"] = "forged"
    return members | {"report/diagnosis.json": json.dumps(tree).encode()}


def lines_swapped(name: str) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        lines = members[name].split(b"\n")
        lines[0], lines[1] = lines[1], lines[0]
        return members | {name: b"\n".join(lines)}

    return change


def text_of(name: str, old: str, new: str) -> Callable[[Members], Members]:
    return lambda members: edited(members, name, (old, new))


FORGERIES: dict[str, tuple[Callable[[Members], Members], str]] = {
    "an outcome in the ledger": (outcome, "outcomes"),
    "a finding in the ledger": (finding, "verdicts"),
    "a finding and its outcome": (finding_and_outcome, "verdicts"),
    "a count of tokens in the ledger": (tokens, "requests, tokens and cost on tape"),
    "how many attempts there were": (an_attempt_less, "rows of the ledger"),
    "a row that is gone": (a_row_less, "rows of the ledger"),
    "a control in the ledger": (controls, "verdicts"),
    "a count of the summary": (a_count, "counts"),
    "an end of an interval": (a_rate, "pass@1, range and intervals"),
    "a cell of a table": (a_cell, "attempts.csv"),
    "a verdict in a log's report": (a_report, "official reports"),
    "a log": (a_log, "verdicts"),
    "a patch": (a_patch, "patches"),
    "a mode": (a_mode, "diagnosis"),
    "a line of a table": (lines_swapped("report/table.md"), "table.md"),
    "a submission": (lines_swapped("preds.2.jsonl"), "preds.2.jsonl"),
    "the headline": (text_of("report/headline.txt", "resolved", "Resolved"), "headline"),
    "an estimate": (lines_swapped("report/estimates.csv"), "pass@k and other estimates"),
    "the model": (text_of("plan.json", '"model": "scripted"', '"model": "better"'), "plan"),
    "a limit": (text_of("plan.json", '"steps": 40', '"steps": 41'), "plan"),
    "a test that must pass": (
        text_of("instances.jsonl", "test_", "tost_"),
        "instances, by their fingerprint",
    ),
    "a table that is gone": (
        lambda members: {k: v for k, v in members.items() if k != "preds.2.jsonl"},
        "tables that there are",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_number_that_was_altered_with_its_hash_is_recomputed(
    name: str, file: Path, passone: Passone
) -> None:
    manifest, members = opened(file)
    change, kind = FORGERIES[name]
    said = passone("verify", forged(Path("forged.passone"), change(members), manifest), "--json")
    assert said.status == 1, said.err
    tree = json.loads(said.out)
    assert kind in [check["kind"] for check in tree["checks"] if check["differing"]]
    assert tree["verified"] is False


def test_what_was_repacked_unchanged_is_verified(file: Path, passone: Passone) -> None:
    manifest, members = opened(file)
    assert passone("verify", forged(Path("again.passone"), members, manifest)).status == 0


def test_the_place_of_what_differs_is_named_with_both_values(file: Path, passone: Passone) -> None:
    manifest, members = opened(file)
    resolved = json.loads(members["report/summary.json"])["outcomes"]["resolved"]
    said = passone("verify", forged(Path("f.passone"), a_count(members), manifest))
    assert (
        f"differs: summary.json outcomes.resolved: says {resolved + 1}, recomputed {resolved}\n"
    ) in said.out
    assert said.out.endswith(" checks, 1 differ: counts\n")
    said = passone("verify", forged(Path("f.passone"), a_cell(members), manifest))
    assert "attempts.csv passone__almanac-27" in said.out
    assert ", requests: says 1, recomputed " in said.out


def test_what_cannot_be_read_at_all_differs_and_is_no_crash(file: Path, passone: Passone) -> None:
    manifest, members = opened(file)
    plan = json.loads(members["plan.json"])
    for tree in (plan | {"repos": {}}, plan | {"identity": 3}, plan | {"attempts": "many"}):
        broken = members | {"plan.json": json.dumps(tree).encode()}
        said = passone("verify", forged(Path("f.passone"), broken, manifest))
        assert said.status == 1, said.err
        assert "cannot be recomputed" in said.out or "plan" in said.out
    rows = members["ledger/rows.jsonl"]
    for text in (rows + b"[1]\n", rows + b"{}\n", rows + b"nonsense", rows + rows[:200]):
        broken = members | {"ledger/rows.jsonl": text}
        said = passone("verify", forged(Path("f.passone"), broken, manifest))
        assert said.status == 2
        assert "ledger/rows.jsonl" in said.err


# Hostile files


def test_a_name_in_a_manifest_commands_no_terminal(file: Path, passone: Passone) -> None:
    manifest, members = opened(file)
    said = passone("verify", forged(Path("f"), members, replace(manifest, run="\x1b[2Jx")))
    assert said.status == 2
    assert "\x1b" not in said.err
    name = "report/headline.txt"
    said = passone("verify", forged(Path("f"), members | {name: b"\x1b[2J\n"}, manifest))
    assert said.status == 1
    assert "\x1b" not in said.out


@pytest.mark.parametrize(
    "changes",
    [
        {"left_out": {"tapes": {"files": 1}}},
        {"left_out": {"nothing": {"files": 1, "bytes": 1}}},
        {"pending": "none"},
        {"pending": -1},
        {"plan": 3},
        {"left_out": 3},
    ],
    ids=str,
)
def test_a_manifest_that_says_nonsense_is_refused(changes: dict[str, Any]) -> None:
    manifest = Manifest(run="r", plan="p", passone="1", pending=0, members=())
    assert Manifest.parse(manifest.to_bytes()) == replace(manifest, members=[])
    with pytest.raises(ValueError, match=r"it (counts|names)|left out|has no attribute"):
        Manifest.parse(replace(manifest, **changes).to_bytes())


def manifest_of(*members: Member) -> bytes:
    listed = Manifest(run="r", plan="p", passone="1", pending=0, members=members)
    return listed.to_bytes()


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "/etc/passwd", "attempts/../../x", "ledger.sqlite", "attempts", "label"),
        *("attempts//x", "attempts/./x", "attempts/a\nb", "notes.txt", ""),
        *(f"attempts/{'x' * 300}", "report/index.html", "scoring/\u202ex", "attempts/x/"),
    ],
)
def test_a_name_that_is_no_place_in_a_run_is_refused(
    name: str, passone: Passone, tmp_path: Path
) -> None:
    assert not belongs(name)
    empty = hashlib.sha256(b"").hexdigest()
    listed = manifest_of(Member(name=name, size=0, sha256=empty))
    packed(tmp_path / "a.passone", block("MANIFEST.json", listed), block(name, b""))
    said = passone("verify", tmp_path / "a.passone")
    assert said.status == 2
    assert "which no run has" in said.err
    # The same, if only the archive names it.
    packed(tmp_path / "b.passone", block("MANIFEST.json", manifest_of()), block(name, b""))
    said = passone("verify", tmp_path / "b.passone")
    assert said.status == 2, said.out


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE],
)
def test_links_devices_and_the_like_are_refused(
    kind: bytes, passone: Passone, tmp_path: Path
) -> None:
    info = tarfile.TarInfo("scoring/x")
    info.type, info.linkname = kind, "/etc/passwd"
    member = Member(name="scoring/x", size=0, sha256=hashlib.sha256(b"").hexdigest())
    head = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
    packed(tmp_path / "a.passone", block("MANIFEST.json", manifest_of(member)), head)
    said = passone("verify", tmp_path / "a.passone")
    assert said.status == 2
    assert "passone packs plain files only" in said.err


def test_what_unpacks_to_more_than_there_is_room_for_is_refused(
    passone: Passone, tmp_path: Path
) -> None:
    member = Member(name="scoring/x", size=1 << 60, sha256="0" * 64)
    packed(tmp_path / "a.passone", block("MANIFEST.json", manifest_of(member)))
    said = passone("verify", tmp_path / "a.passone")
    assert said.status == 2
    assert "set TMPDIR to where there is room" in said.err


def test_a_member_that_is_larger_than_its_manifest_says_is_not_unpacked(
    passone: Passone, tmp_path: Path
) -> None:
    bomb = bytes(50_000_000)
    member = Member(name="scoring/x", size=1, sha256="0" * 64)
    packed(
        tmp_path / "a.passone",
        *(block("MANIFEST.json", manifest_of(member)), block("scoring/x", bomb)),
    )
    place = tmp_path / "into"
    place.mkdir()
    unpacked = unpack(tmp_path / "a.passone", place)
    assert unpacked.faults == ("scoring/x: is altered: has 50,000,000 bytes, not 1",)
    assert list(place.rglob("*")) == []
    huge = head_of("scoring/x", 1 << 40)
    packed(tmp_path / "b.passone", block("MANIFEST.json", manifest_of(member)), huge)
    assert "which no manifest says" in unpack(tmp_path / "b.passone", None).faults[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no bundle of passone"),
        (b"text\n", "is no bundle of passone"),
        (zstandard.ZstdCompressor().compress(b"text" * 1000), "its first member is no manifest"),
    ],
)
def test_what_is_no_bundle_is_bad_input(
    content: bytes, said: str, passone: Passone, tmp_path: Path
) -> None:
    path = tmp_path / "x.passone"
    path.write_bytes(content)
    for command in ("verify", "status", "tape"):
        found = passone(command, path)
        assert found.status in (1, 2) if command == "verify" else found.status == 2
    assert said in passone("status", path).err or "is damaged" in passone("status", path).err
    assert passone("verify", tmp_path / "nothing.passone").status == 2


# A bundle in a run's place


READING: tuple[tuple[str, ...], ...] = (
    *(("status",), ("status", "--evidence"), ("status", "--json"), ("table",), ("diagnose",)),
    *(("table", "--by", "attempt", "--format", "csv"), ("tape", "--format", "jsonl")),
    *(("audit", "--json"), ("regrade",), ("rollouts", "-o", "r.jsonl")),
    *(
        ("export", "--report-json", "x.json"),
        ("plan", "--within", "20"),
        ("report", "-o", "r.html"),
    ),
    *(("compare", "--published", "3/9"),),
)


@pytest.mark.parametrize("argv", READING, ids=" ".join)
def test_a_reading_command_takes_a_bundle_where_it_takes_a_run(
    argv: tuple[str, ...],
    run: RunDir,
    file: Path,
    passone: Passone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    command, *options = argv
    copy = tmp_path / "copy"
    shutil.copytree(run.root, copy)
    wanted = passone(command, copy, *options)
    made = Path("r.jsonl").read_bytes() if command == "rollouts" else b""
    said = passone(command, file, *options)
    assert said.status == wanted.status == 0, said.err
    known = {str(copy): "RUN", str(file): "RUN"}
    assert replaced(said.out, known) == replaced(wanted.out, known)
    if made:
        assert Path("r.jsonl").read_bytes() == made
    assert list(scratch.iterdir()) == []


def replaced(text: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def test_nothing_is_left_behind_where_a_command_fails(
    file: Path, passone: Passone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    assert passone("export", file, "--attempt", "9", "--report-json", "x").status == 2
    file.write_bytes(file.read_bytes()[:-3])
    assert passone("table", file).status == 2
    assert passone("verify", file).status == 1
    assert list(scratch.iterdir()) == []


def test_a_bundle_needs_no_dataset(passone: Passone, tmp_path: Path) -> None:
    rows = file_of("rows.jsonl", *ROWS.values())
    file_of("p.jsonl", *(prediction(id_, "diff") for id_ in IDS[:3]))
    verdicts = verdicts_of("v.json", run1={IDS[0]: 1, IDS[1]: 0, IDS[2]: 1})
    said = passone("score", "p.jsonl", "--dataset", rows, "--verdicts", verdicts, "--run", "r")
    assert said.status == 0, said.err
    assert passone("bundle", "logs/r", "-o", "r.passone").status == 0
    rows.unlink()
    assert passone("diagnose", "logs/r").status == 2
    assert passone("diagnose", "r.passone").status == 0
    assert passone("verify", "r.passone").out.endswith(" 0 differ\n")
    said = passone("bundle", "logs/r", "-o", "again.passone")
    assert said.status == 2
    assert "rows.jsonl" in said.err
    assert not Path("again.passone").exists()


# What is left out, unfinished or under way


@pytest.mark.parametrize("part", list(Part))
def test_a_part_can_be_left_out_and_verify_says_so(
    part: Part, run: RunDir, passone: Passone
) -> None:
    copy = Path("copy")
    shutil.copytree(run.root, copy)
    kept = RunDir(copy).attempt(Attempt(IDS_OF_RUN[0], 1), 1) / "artifacts" / "made" / "a b.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("by the agent")
    said = passone("bundle", copy, "-o", "small.passone", "--without", part)
    assert f"· without {part} (" in said.out
    manifest, members = opened(Path("small.passone"))
    assert not [name for name in members if part_of(name) is part]
    assert not manifest.has(part)
    assert manifest.left_out[part]["files"] > 0
    said = passone("verify", "small.passone")
    assert said.status == 0, said.out
    assert f"· without {part} (" in said.out
    missing = {
        Part.TAPES: "cost on tape",
        Part.TRAJECTORIES: "diagnosis 1",
        Part.LOGS: "official reports",
        Part.ARTIFACTS: "an artifact",
    }
    assert missing[part] not in said.out
    assert passone("status", "small.passone").status == 0


def test_a_verdict_without_its_log_is_held_against_its_report(
    run: RunDir, passone: Passone
) -> None:
    passone("bundle", run.root, "-o", "small.passone", "--without", "logs")
    assert "by their reports alone" in passone("verify", "small.passone").out
    manifest, members = opened(Path("small.passone"))
    said = passone("verify", forged(Path("f.passone"), finding_and_outcome(members), manifest))
    assert said.status == 1
    assert "verdicts" in said.out.splitlines()[-1]


def test_an_unknown_part_is_refused(run: RunDir, passone: Passone) -> None:
    said = passone("bundle", run.root, "-o", "x.passone", "--without", "everything")
    assert said.status == 2
    assert "known: tapes, trajectories, logs, artifacts" in said.err


def test_a_run_that_somebody_drives_is_not_bundled(
    run: RunDir, passone: Passone, tmp_path: Path
) -> None:
    shutil.copytree(run.root, tmp_path / "copy")
    with RunDir(tmp_path / "copy").held():
        said = passone("bundle", tmp_path / "copy", "-o", "x.passone")
    assert said.status == 2
    assert "drives this run; bundle it when that has ended" in said.err
    assert not Path("x.passone").exists()


def test_an_unfinished_run_is_bundled_as_what_it_is(
    run: RunDir, passone: Passone, tmp_path: Path
) -> None:
    shutil.copytree(run.root, tmp_path / "copy")
    plan = RunDir(tmp_path / "copy").plan
    plan.write_text(plan.read_text().replace('"attempts": 3', '"attempts": 4'))
    said = passone("bundle", tmp_path / "copy", "-o", "x.passone")
    assert "partial (3 pending)" in said.out
    manifest, members = opened(Path("x.passone"))
    assert manifest.pending == 3
    assert members["report/headline.txt"].startswith(b"partial (3 pending) ")
    said = passone("verify", "x.passone")
    assert said.status == 0
    assert "partial (3 pending)" in said.out
    said = passone("verify", forged(Path("f"), members, replace(manifest, pending=0)))
    assert said.status == 1


def test_a_link_in_a_run_is_not_followed(run: RunDir, passone: Passone, tmp_path: Path) -> None:
    shutil.copytree(run.root, tmp_path / "copy")
    (tmp_path / "copy" / "scoring" / "link").symlink_to("/etc/hostname")
    said = passone("bundle", tmp_path / "copy", "-o", "x.passone")
    assert said.status == 2
    assert "is no plain file" in said.err


def test_a_key_of_this_environment_does_not_travel(
    run: RunDir, passone: Passone, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = next(run.root.glob("attempts/*/1/try-1/tape.jsonl.zst"))
    word = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    assert word.encode() in b"".join(lines_of(tape))
    monkeypatch.setenv("SOME_API_KEY", word)
    said = passone("bundle", run.root, "-o", "x.passone")
    assert said.status == 0
    assert "a key of this environment stood there; it is gone" in said.err
    assert word not in said.err
    _, members = opened(Path("x.passone"))
    for name, content in members.items():
        path = Path("member" + ("".join(Path(name).suffixes[-1:])))
        path.write_bytes(content)
        unpacked = b"".join(lines_of(path)) if name.endswith(".zst") else content
        assert word.encode() not in unpacked, name
    assert passone("verify", "x.passone").status == 0


def test_a_bundle_that_cannot_be_written_is_a_clear_error(run: RunDir, passone: Passone) -> None:
    Path("x").write_text("a file")
    said = passone("bundle", run.root, "-o", "x/y.passone")
    assert said.status == 2
    assert "cannot be written" in said.err
    assert passone("bundle", "nowhere", "-o", "y.passone").status == 2


# The parts


def test_every_kind_of_file_has_its_part() -> None:
    assert part_of("attempts/a/1/try-1/tape.jsonl.zst") is Part.TAPES
    assert part_of("cut-off/doctor-1.jsonl") is Part.TAPES
    assert part_of("attempts/a/1/try-1/steps.jsonl") is Part.TRAJECTORIES
    assert part_of("attempts/a/1/try-1/trajectory.traj.json") is Part.TRAJECTORIES
    assert part_of("attempts/a/1/try-1/agent.log") is Part.LOGS
    assert part_of("scoring/a/1/test_output.txt") is Part.LOGS
    assert part_of("attempts/a/1/try-1/artifacts/steps.jsonl") is Part.ARTIFACTS
    for name in ("plan.json", "scoring/a/1/report.json", "attempts/a/1/try-1/patch.diff"):
        assert part_of(name) is None


def test_values_are_the_same_but_for_a_last_digit() -> None:
    assert same(0.1 + 0.2, 0.3)
    assert same(1, 1.0)
    assert not same(0.3, 0.3001)
    assert not same(True, 1)
    assert not same(None, 0)
    assert same("a", "a")


def test_trees_tables_and_lines_name_each_place_that_differs() -> None:
    check = compare_trees("k", "f", {"a": {"b": [1, 2]}, "c": None}, {"a": {"b": [1, 3]}, "d": {}})
    assert check.of == 4
    assert check.differing == (
        "f a.b.1: says 2, recomputed 3",
        "f c: says None, recomputed nothing",
        "f d: says nothing, recomputed {}",
    )
    check = compare_tables("k", "t.csv", b"a,b\nx,1\ny,2.0\n", b"a,b\nx,1.0\ny,3\n")
    assert check.differing == ("t.csv y 3, b: says 2.0, recomputed 3",)
    assert check.line == "k 3/4 equal"
    assert compare_tables("k", "t", b"a\n", b"a\n1\n").differing
    check = compare_lines("k", "f", b"a\nb", b"a\nc\nd")
    assert [said.partition(":")[0] for said in check.differing] == ["f line 2", "f line 3"]
