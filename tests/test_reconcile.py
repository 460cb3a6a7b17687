"""Three ledgers side by side: what differs is explained, and what is not is said."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bill import PRESETS, Bill, Columns, Entry, columns_of, discount_of, plain, read_bill
from pipeline.cli import main
from pipeline.domain import Attempt, Cause, Fault, Patch, Rollout, Stop, Usage
from pipeline.gateway.tapes import Exchange, Header, Recorder
from pipeline.ledger import Kind as RowKind
from pipeline.ledger import Ledger
from pipeline.outcomes import UserError
from pipeline.reconcile import Kind, Reconciliation, Standing, reconcile
from pipeline.reconcile.ledgers import Fate, Request, Try, Window
from pipeline.reconcile.matching import match, sweep
from pipeline.rundir import RunDir
from tests.fakes import PROPERTY, make_plan, plan_json

DOCS = Path(__file__).parent.parent / "docs" / "reconcile.md"
START = datetime(2026, 6, 28, 12, 0, tzinfo=UTC)
WHERE = "https://gateway.example/v1"
MODEL = "gpt-oss-120b"
IN, CACHED, OUT = 3e-6, 0.3e-6, 15e-6
A, B = Attempt("a-1", 1), Attempt("b-2", 1)
BROKEN = Fault(cause=Cause.ENDPOINT, detail="503")


def price(usage: Usage, cached: float = CACHED) -> float:
    plain_input = usage.input_tokens - usage.cached_tokens
    return plain_input * IN + usage.cached_tokens * cached + usage.output_tokens * OUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One exchange: when, and what the server counted of it."""

    at: float
    tokens: tuple[int, int] | None
    """In and out; None: the server did not say."""
    cached: int = 0
    ordinal: int = 1
    again: int = 0
    seconds: float = 2.0
    status: int = 200
    failed: bool = False
    priced: bool = True
    id: str = ""

    @property
    def usage(self) -> Usage:
        used = {"requests": int(not self.failed), "failed": int(self.failed)}
        if self.tokens is None:
            return Usage(**used, cost_usd=0.0 if self.failed else None)
        usage = Usage(
            **used,
            input_tokens=self.tokens[0],
            cached_tokens=self.cached,
            output_tokens=self.tokens[1],
        )
        return replace(usage, cost_usd=price(usage) if self.priced else None)

    @property
    def exchange(self) -> Exchange:
        asked = START + timedelta(seconds=self.at)
        return Exchange(
            ordinal=self.ordinal,
            again=self.again,
            request={"model": MODEL, "messages": [{"role": "user", "content": "x"}]},
            asked=asked.isoformat(timespec="milliseconds"),
            seconds=self.seconds,
            status=self.status,
            answer={"id": self.id, "model": f"{MODEL}-2026-01-01"} if self.id else {"error": "x"},
            ending=BROKEN if self.failed else None,
            usage=self.usage,
            discarded=self.failed,
        )

    def line(self, **changes: Any) -> dict[str, Any]:
        """As OpenRouter bills it."""
        tokens = self.tokens or (0, 0)
        time = START + timedelta(seconds=self.at + self.seconds / 2)
        row = {
            "generation_id": self.id,
            "created_at": time.strftime("%Y-%m-%d %H:%M:%S.%f"),
            "cost_total": f"{self.usage.cost_usd or price(self.usage):.10f}",
            "tokens_prompt": tokens[0],
            "tokens_completion": tokens[1],
            "tokens_cached": self.cached,
            "model_permaslug": f"openai/{MODEL}",
        }
        return row | changes


def talk(
    start: float = 0.0, number: int = 4, *, size: int = 1000, cached: bool = True
) -> list[Asked]:
    """A conversation: its input grows, and what was said before is cached."""
    return [
        Asked(
            at=start + 10.0 * n,
            tokens=(size + 500 * n, 40 + 7 * n),
            cached=(size + 500 * (n - 1)) // 2 + 11 * n * n if cached and n else 0,
            ordinal=n + 1,
        )
        for n in range(number)
    ]


FIRST, SECOND = talk(), talk(5.0, 3, size=1200)


@dataclass(slots=True)
class World:
    """A run directory, made of real tapes, a real ledger and trajectories."""

    root: Path
    agent: str = "miniswe"
    where: str = WHERE
    name: str = "r"
    begun: str = START.isoformat()
    tries: dict[tuple[Attempt, int], Sequence[Asked]] = field(default_factory=dict)
    """Tape by attempt and try."""
    silent: set[tuple[Attempt, int]] = field(default_factory=set)
    """Tries that left no trajectory."""
    cut_off: dict[str, Sequence[Asked]] = field(default_factory=dict)

    @property
    def run(self) -> RunDir:
        return RunDir(self.root / "logs" / self.name)

    def tape(self, path: Path, attempt: Attempt, number: int, asked: Iterable[Asked]) -> Recorder:
        path.parent.mkdir(parents=True, exist_ok=True)
        header = Header(
            run=self.name,
            plan="p",
            instance_id=attempt.instance_id,
            attempt=attempt.number,
            try_number=number,
            model=MODEL,
            where=self.where,
            begun=self.begun,
        )
        recorder = Recorder(path, header)
        for one in asked:
            recorder.write(one.exchange)
        return recorder

    def write(self) -> World:
        plan = make_plan("a-1", "b-2", agent=self.agent, name=self.name)
        self.run.root.mkdir(parents=True)
        self.run.plan.write_text(json.dumps(plan_json(plan)))
        with Ledger(self.run.ledger) as ledger:
            for (attempt, number), asked in self.tries.items():
                directory = self.run.attempt(attempt, number)
                self.tape(directory / "tape.jsonl", attempt, number, asked).close()
                if (attempt, number) not in self.silent:
                    trajectory(directory, self.agent, asked)
                rollout = Rollout(
                    stop=Stop.SUBMITTED,
                    submission=Patch("d"),
                    exit_status="Submitted",
                    usage=sum((one.usage for one in asked), Usage()),
                )
                again = (attempt, number + 1) in self.tries
                ledger.append(RowKind.ROLLOUT, attempt, number, BROKEN if again else rollout)
        for name, asked in self.cut_off.items():
            self.tape(self.run.cut_off / f"try-{name}.jsonl", B, 2, asked)
        return self

    def bill(self, rows: Sequence[Mapping[str, Any]], zone_name: str = "") -> Bill:
        return read_bill(bill_of(self.root / "bill.csv", rows), zone_name=zone_name)

    def reconciled(self, rows: Sequence[Mapping[str, Any]], **options: float) -> Reconciliation:
        return reconcile(self.run, self.bill(rows), **options)


def trajectory(directory: Path, agent: str, asked: Iterable[Asked]) -> None:
    """What the agent writes of the answers that it got."""
    got = [one for one in asked if not one.failed]
    if agent == "sweagent":
        stats = {"api_calls": len(got), "tokens_sent": 777 * len(got), "tokens_received": 5}
        tree: dict[str, Any] = {"info": {"model_stats": stats | {"instance_cost": 0}}}
        (directory / "trajectory.traj").write_text(json.dumps(tree))
        return
    messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}]
    for one in got:
        tokens = one.tokens or (0, 0)
        usage = {
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "prompt_tokens_details": {"cached_tokens": one.cached} if one.cached else None,
        }
        extra = {"response": {"usage": usage}, "cost": 0.0}
        messages.append({"role": "assistant", "content": "", "extra": extra})
    (directory / "trajectory.traj.json").write_text(json.dumps({"messages": messages}))


def bill_of(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    text = io.StringIO(newline="")
    names = list(rows[0] if rows else Asked(at=0, tokens=(1, 1)).line())
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue())
    return path


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, tries={(A, 1): FIRST, (B, 1): SECOND})


def lines(*asked: Asked) -> list[dict[str, Any]]:
    return [one.line() for one in asked]


def kinds(found: Reconciliation) -> set[Kind]:
    return {finding.kind for finding in found.findings}


def text(found: Reconciliation, kind: Kind) -> str:
    [said] = [finding.text for finding in found.findings if finding.kind is kind]
    return said


@dataclass(frozen=True, slots=True)
class Said:
    status: int
    out: str
    err: str


@pytest.fixture
def passone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    def call(*argv: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["passone", "reconcile", *map(str, argv)])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 1
        captured = capsys.readouterr()
        return Said(status, captured.out, captured.err)

    return call


# Agreement


def test_a_bill_that_agrees_is_accounted_for_to_the_last_token(world: World) -> None:
    found = world.write().reconciled(lines(*FIRST, *SECOND))
    assert (found.settled, kinds(found)) == (True, {Kind.AGREED})
    total = found.total
    assert total.said.requests == total.answered.requests == total.billed.requests == 7
    assert total.said.input_tokens == total.billed.input_tokens == total.answered.input_tokens
    assert total.billed.cost_usd == pytest.approx(total.answered.cost_usd)
    assert total.said.cost_usd is None, "mini writes 0 for a price that it does not know"
    difference = found.by_ledger[-1]
    assert (difference["ledger"], difference["requests"]) == ("bill − gateway", 0)


def test_every_attempt_gets_the_lines_that_are_its_own(world: World) -> None:
    found = world.write().reconciled(lines(*FIRST, *SECOND))
    by_attempt = {account.attempt: account for account in found.accounts}
    for attempt, asked in ((A, FIRST), (B, SECOND)):
        billed = by_attempt[attempt].billed
        assert billed.requests == len(asked)
        assert billed.input_tokens == sum(one.tokens[0] for one in asked if one.tokens)


def test_every_kind_has_a_standing_and_every_standing_a_kind() -> None:
    assert {kind.standing for kind in Kind} == set(Standing)


@pytest.mark.parametrize("digits", [19, 16])
def test_times_rounded_to_seconds_or_minutes_still_meet(world: World, digits: int) -> None:
    rows = lines(*FIRST, *SECOND)
    rounded = [row | {"created_at": row["created_at"][:digits]} for row in rows]
    found = world.write().reconciled(rounded)
    assert kinds(found) == {Kind.AGREED}


def test_a_bill_by_the_servers_ids_needs_neither_times_nor_tokens(world: World) -> None:
    named = [replace(one, id=f"gen-{n}") for n, one in enumerate(FIRST)]
    world.tries = {(A, 1): named}
    rows = [one.line(created_at="2026-06-28 15:00:00", model_permaslug="p/alias") for one in named]
    found = world.write().reconciled(rows)
    assert kinds(found) == {Kind.AGREED, Kind.OTHER_NAME}
    assert "p/alias" in text(found, Kind.OTHER_NAME)


def test_costs_rounded_to_cents_are_rounding(world: World) -> None:
    rows = lines(*FIRST, *SECOND)
    rounded = [row | {"cost_total": f"{float(row['cost_total']):.2f}"} for row in rows]
    found = world.write().reconciled(rounded)
    assert kinds(found) == {Kind.AGREED, Kind.ROUNDING}
    assert "no line more apart than its last decimal (0.01)" in text(found, Kind.ROUNDING)


# Each explanation

RETRIED = [
    Asked(at=0, tokens=None, failed=True, status=502, seconds=30),
    Asked(at=40, tokens=(900, 30), again=1),
]


def test_a_request_that_failed_and_was_sent_again_is_billed_twice(world: World) -> None:
    world.tries = {(A, 1): RETRIED}
    rows = [RETRIED[0].line(tokens_prompt=900, tokens_completion=11, cost_total="0.0028650000")]
    found = world.write().reconciled([*rows, RETRIED[1].line()])
    assert kinds(found) == {Kind.AGREED, Kind.RETRIED_AND_BILLED}
    said = text(found, Kind.RETRIED_AND_BILLED)
    assert "1 request billed without any answer: sent again after that" in said
    assert "(1 request, 900 tokens in, 11 out, $0.0029)" in said
    assert (found.total.resent, found.total.failed, found.total.billed.requests) == (1, 1, 2)


def test_a_failed_request_that_is_not_billed_is_no_difference(world: World) -> None:
    world.tries = {(A, 1): RETRIED}
    found = world.write().reconciled(lines(RETRIED[1]))
    assert kinds(found) == {Kind.AGREED}


def test_a_failed_request_that_never_succeeded_may_be_billed_by_its_time(world: World) -> None:
    world.tries = {(A, 1): [*FIRST, replace(RETRIED[0], at=600, ordinal=9)]}
    rows = lines(*FIRST, replace(RETRIED[0], at=600))
    found = world.write().reconciled([*rows[:-1], rows[-1] | {"tokens_prompt": 3333}])
    assert kinds(found) == {Kind.AGREED, Kind.DISCARDED_AND_BILLED}
    assert found.settled


def test_a_refused_request_is_never_taken_for_a_billed_one(world: World) -> None:
    refused = replace(RETRIED[0], at=600, ordinal=9, status=429)
    world.tries = {(A, 1): [*FIRST, refused]}
    found = world.write().reconciled([*lines(*FIRST), refused.line(tokens_prompt=3333)])
    assert kinds(found) == {Kind.AGREED, Kind.NOT_ON_TAPES}
    assert not found.settled


def test_what_failed_and_is_listed_at_no_charge_is_no_difference(world: World) -> None:
    refused = replace(RETRIED[0], at=600, ordinal=9, status=429)
    world.tries = {(A, 1): [*FIRST, refused]}
    free = refused.line(cost_total="0")
    found = world.write().reconciled([*lines(*FIRST), free, free])
    assert kinds(found) == {Kind.AGREED, Kind.LEFT_OUT}
    assert "2 lines at no charge left out" in text(found, Kind.LEFT_OUT)


def test_a_discarded_reply_is_billed_and_stands_apart(world: World) -> None:
    discarded = Asked(at=90, tokens=(700, 70), failed=True, ordinal=8)
    world.tries = {(A, 1): [*FIRST, discarded]}
    found = world.write().reconciled(lines(*FIRST, discarded))
    assert kinds(found) == {Kind.AGREED, Kind.DISCARDED_AND_BILLED}
    assert found.total.discarded.input_tokens == 700
    assert found.total.answered.requests == found.total.said.requests == 4
    assert found.by_ledger[-1]["requests"] == 0


def test_a_line_that_repeats_the_id_of_another_is_billed_twice(world: World) -> None:
    first = [replace(one, id=f"gen-{n}") for n, one in enumerate(FIRST)]
    world.tries = {(A, 1): first}
    found = world.write().reconciled(lines(*first, first[1]))
    assert kinds(found) == {Kind.AGREED, Kind.BILLED_TWICE}
    [twice] = [f for f in found.findings if f.kind is Kind.BILLED_TWICE]
    assert twice.figures is not None
    assert (twice.figures.requests, list(twice.lines)) == (1, [6])
    assert found.total.billed.requests == 5


def test_lines_outside_the_window_are_not_the_runs(world: World) -> None:
    others = [Asked(at=-7200, tokens=(5, 5)), Asked(at=7200, tokens=(6, 6))]
    found = world.write().reconciled(lines(*FIRST, *SECOND, *others))
    assert kinds(found) == {Kind.AGREED, Kind.OUTSIDE_WINDOW}
    said = text(found, Kind.OUTSIDE_WINDOW)
    assert "2026-06-28 12:00:00 to 2026-06-28 12:00:32 UTC: 1 before it, 1 after it" in said
    assert found.by_ledger[-2]["requests"] == 2


def test_lines_while_the_run_stood_still_are_not_its_own(world: World) -> None:
    world.tries[B, 1] = talk(36_000, 3, size=4000)
    between = Asked(at=18_000, tokens=(5, 5))
    found = world.write().reconciled(lines(*FIRST, *world.tries[B, 1], between))
    assert kinds(found) == {Kind.AGREED, Kind.OUTSIDE_WINDOW}
    assert "0 before it, 0 after it, 1 while it stood still" in text(found, Kind.OUTSIDE_WINDOW)


def test_lines_of_other_models_are_not_the_runs(world: World) -> None:
    other = FIRST[0].line(model_permaslug="other/model", tokens_prompt=1)
    found = world.write().reconciled([*lines(*FIRST, *SECOND), other])
    assert kinds(found) == {Kind.AGREED, Kind.OTHER_MODEL}
    assert "other/model" in text(found, Kind.OTHER_MODEL)


def test_another_name_for_the_same_model_is_seen_by_its_tokens(world: World) -> None:
    rows = [one.line(model_permaslug="prod-deployment-7") for one in (*FIRST, *SECOND)]
    found = world.write().reconciled(rows)
    assert kinds(found) == {Kind.AGREED, Kind.OTHER_NAME}


def test_a_bill_that_ends_before_the_run_may_not_be_complete_yet(world: World) -> None:
    later = talk(3600, 3, size=4000)
    world.tries[B, 1] = later
    found = world.write().reconciled(lines(*FIRST))
    assert kinds(found) == {Kind.AGREED, Kind.LATE}
    said = text(found, Kind.LATE)
    assert "it goes from 2026-06-28 12:00:01 to 2026-06-28 12:00:31 UTC" in said
    assert "3 requests, 13,500 tokens in" in said
    assert found.settled


def test_a_bill_that_begins_later_than_the_run_lacks_its_first_requests(world: World) -> None:
    later = talk(3600, 3, size=4000)
    world.tries[B, 1] = later
    found = world.write().reconciled(lines(*later))
    assert kinds(found) == {Kind.AGREED, Kind.LATE}


def test_a_bill_that_leaves_cached_tokens_out_of_its_input_is_understood(world: World) -> None:
    rows = [
        one.line(tokens_prompt=(one.tokens or (0, 0))[0] - one.cached) for one in (*FIRST, *SECOND)
    ]
    found = world.write().reconciled(rows)
    assert kinds(found) == {Kind.AGREED, Kind.UNCACHED_INPUT}


def test_cached_tokens_priced_in_full_are_found_out(world: World) -> None:
    rows = [
        one.line(cost_total=f"{price(one.usage, IN):.10f}", tokens_cached=0)
        for one in (*FIRST, *SECOND)
    ]
    found = world.write().reconciled(rows)
    assert kinds(found) == {Kind.AGREED, Kind.CACHED_IN_FULL}
    said = text(found, Kind.CACHED_IN_FULL)
    cached = sum(one.cached for one in (*FIRST, *SECOND))
    assert "$2.7000 more for each million cached tokens" in said
    assert f"for {cached:,}: exactly what uncached ones cost" in said
    assert found.settled


def test_the_tapes_own_discount_is_told_to_the_last_digit() -> None:
    usages = [one.usage for one in (*FIRST, *SECOND)]
    assert discount_of(usages) == pytest.approx(IN - CACHED)
    assert discount_of(usages[:2]) == discount_of([]) == 0.0
    assert discount_of([replace(usage, cost_usd=None) for usage in usages]) == 0.0


def test_an_unknown_price_is_unknown_and_never_zero(world: World) -> None:
    world.tries = {(A, 1): [replace(one, priced=False) for one in FIRST]}
    found = world.write().reconciled(lines(*FIRST))
    assert kinds(found) == {Kind.AGREED, Kind.PRICE_UNKNOWN}
    assert found.by_ledger[-1]["cost_usd"] is None


@pytest.mark.parametrize(
    ("factor", "said"), [(1.055, "1.055 times as much on every"), (0.0, "0 times as much on every")]
)
def test_one_factor_on_every_line_is_another_price(world: World, factor: float, said: str) -> None:
    rows = [one.line(cost_total=f"{price(one.usage) * factor:.10f}") for one in (*FIRST, *SECOND)]
    found = world.write().reconciled(rows)
    assert kinds(found) == {Kind.AGREED, Kind.OTHER_PRICE}
    assert said in text(found, Kind.OTHER_PRICE)


def test_costs_that_nothing_explains_are_unexplained(world: World) -> None:
    rows = lines(*FIRST, *SECOND)
    rows[2]["cost_total"] = "0.5"
    found = world.write().reconciled(rows)
    assert kinds(found) == {Kind.AGREED, Kind.COST_DIFFERS}
    assert "another sum on 1 of 7 lines" in text(found, Kind.COST_DIFFERS)
    assert not found.settled


def test_a_killed_try_is_billed_with_the_request_that_was_under_way(world: World) -> None:
    cut = talk(2000, 2, size=3000)
    world.cut_off = {"b-2-1-2-xyz": cut}
    under_way = Asked(at=2025, tokens=(4000, 9))
    found = world.write().reconciled(lines(*FIRST, *SECOND, *cut, under_way))
    assert kinds(found) == {Kind.AGREED, Kind.CUT_TAPE, Kind.UNSAID}
    assert "1 line of requests that were under way" in text(found, Kind.CUT_TAPE)
    assert "miniswe says 0 requests" in text(found, Kind.UNSAID)
    assert "b-2 #1 try 2" in text(found, Kind.UNSAID)
    assert found.settled
    assert [account.tries for account in found.accounts] == [1, 2]


def test_a_tape_of_nobody_is_said_and_is_nobodys_attempt(world: World) -> None:
    world.write()
    world.run.cut_off.mkdir()
    (world.run.cut_off / "try-x.jsonl").write_text("noise")
    found = world.reconciled(lines(*FIRST, *SECOND))
    assert "is no tape of passone" in text(found, Kind.NO_TAPE)
    assert len(found.accounts) == 2


def test_a_packed_tape_of_a_killed_try_is_read_once(world: World) -> None:
    world.cut_off = {"b-2-1-2-xyz": talk(2000, 2, size=3000)}
    world.write()
    [tape] = world.run.cut_off.iterdir()
    plain_tape = tape.read_bytes()
    recorder = world.tape(tape, B, 2, ())
    recorder.close()
    tape.write_bytes(plain_tape)
    (world.run.cut_off / "try-b-2-1-2-xyz.jsonl.zst.partial").write_bytes(b"half")
    found = world.reconciled(lines(*FIRST, *SECOND))
    assert found.total.tries == 3


def test_a_damaged_tape_is_read_to_its_damage_and_named(world: World) -> None:
    world.write()
    tape = world.run.attempt(B, 1) / "tape.jsonl.zst"
    tape.unlink()
    recorder = world.tape(tape.with_suffix(""), B, 1, SECOND)
    with recorder.path.open("ab") as file:
        file.write(b'{"ordinal": 3, "aga')
    recorder.close()
    found = world.reconciled(lines(*FIRST, *SECOND))
    assert kinds(found) == {Kind.AGREED, Kind.NO_TAPE}
    assert "tape.jsonl.zst: is cut" in text(found, Kind.NO_TAPE)
    assert found.total.billed.requests == 7


def test_a_tape_that_is_none_and_a_try_without_one_are_said(world: World) -> None:
    world.write()
    (world.run.attempt(B, 1) / "tape.jsonl.zst").write_bytes(b"noise")
    (world.run.attempt(A, 1) / "tape.jsonl.zst").unlink()
    world.run.attempt(A, 2).mkdir()
    world.tape(world.run.attempt(A, 2) / "tape.jsonl", A, 2, FIRST[:1])
    found = world.reconciled(lines(FIRST[0]))
    said = text(found, Kind.NO_TAPE)
    assert "is no tape of passone" in said
    assert "try-1: no tape of 4 requests" in said


def test_lines_that_no_tape_knows_are_unexplained(world: World) -> None:
    stranger = Asked(at=15, tokens=(50_000, 9))
    found = world.write().reconciled(lines(*FIRST, *SECOND, stranger))
    assert kinds(found) == {Kind.AGREED, Kind.NOT_ON_TAPES}
    assert "somebody else uses the same key" in text(found, Kind.NOT_ON_TAPES)
    assert found.by_ledger[-3]["input_tokens"] == 50_000


def test_requests_that_the_bill_lacks_are_unexplained(world: World) -> None:
    found = world.write().reconciled(lines(*FIRST, *SECOND[:1], *SECOND[2:]))
    assert kinds(found) == {Kind.AGREED, Kind.NOT_ON_BILL}
    assert "1 request, 1,700 tokens in" in text(found, Kind.NOT_ON_BILL)


def test_other_token_counts_are_unexplained_but_meet(world: World) -> None:
    rows = [
        one.line(tokens_prompt=round((one.tokens or (0, 0))[0] * 1.2), tokens_completion=3)
        for one in (*FIRST, *SECOND)
    ]
    found = world.write().reconciled(rows)
    assert Kind.OTHER_TOKENS in kinds(found)
    assert found.total.billed.requests == 7
    assert not found.settled


@pytest.mark.parametrize("first", ["", "0.9"])
def test_a_bill_without_tokens_is_compared_in_the_sum_of_its_costs(
    world: World, first: str
) -> None:
    rows = [
        {"time": row["created_at"], "model": MODEL, "cost": row["cost_total"]}
        for row in lines(*FIRST, *SECOND)
    ]
    rows[0]["cost"] = first or rows[0]["cost"]
    found = world.write().reconciled(rows)
    differs = {Kind.COST_DIFFERS} if first else set()
    assert kinds(found) == {Kind.AGREED} | differs
    assert found.total.billed.requests is None


def test_an_answer_without_usage_meets_by_time(world: World) -> None:
    world.tries = {(A, 1): [*FIRST, Asked(at=300, tokens=None, ordinal=9)]}
    found = world.write().reconciled([*lines(*FIRST), Asked(at=300, tokens=(8000, 3)).line()])
    assert kinds(found) == {Kind.AGREED, Kind.NO_USAGE}
    assert found.settled


# The agent's own count


def test_sweagent_counts_by_itself_and_that_explains_it(world: World) -> None:
    world.agent = "sweagent"
    found = world.write().reconciled(lines(*FIRST, *SECOND))
    assert kinds(found) == {Kind.AGREED, Kind.LOCAL_COUNT}
    assert "sweagent counts tokens by itself" in text(found, Kind.LOCAL_COUNT)
    assert found.total.said.input_tokens == 7 * 777


def test_an_agent_that_ended_before_it_wrote_is_explained(world: World) -> None:
    world.silent = {(B, 1)}
    found = world.write().reconciled(lines(*FIRST, *SECOND))
    assert kinds(found) == {Kind.AGREED, Kind.UNSAID}
    assert "before it wrote its last replies down (b-2 #1 try 1)" in text(found, Kind.UNSAID)


def test_an_agent_that_says_something_else_is_unexplained(world: World) -> None:
    world.write()
    trajectory(world.run.attempt(A, 1), "miniswe", [*FIRST, *FIRST])
    found = world.reconciled(lines(*FIRST, *SECOND))
    assert kinds(found) == {Kind.AGREED, Kind.AGENT_DIFFERS}
    assert "a-1 #1 try 1" in text(found, Kind.AGENT_DIFFERS)


def test_any_other_agent_is_not_recorded(world: World) -> None:
    world.agent = "command"
    found = world.write().reconciled(lines(*FIRST, *SECOND))
    assert kinds(found) == {Kind.AGREED}
    assert found.total.said.requests is None


# Nothing at all


def test_not_one_request_on_the_bill_is_an_alarm_that_names_the_endpoint(world: World) -> None:
    found = world.write().reconciled(lines(Asked(at=9e5, tokens=(1, 1))))
    [alarm, *_] = found.findings
    assert (alarm.kind, alarm.kind.standing) == (Kind.ELSEWHERE, Standing.ALARM)
    assert (
        "NOT ONE of the run's 7 requests is on this bill: the traffic went elsewhere" in alarm.text
    )
    assert f"The run asked {WHERE}" in alarm.text
    assert not found.settled


def test_a_bill_without_lines_is_said_to_have_none(
    world: World, passone: Callable[..., Said]
) -> None:
    said = passone(world.write().run.root, bill_of(world.root / "bill.csv", []))
    assert said.status == 3
    assert "ALARM" not in said.out
    assert "UNEXPLAINED: the bill has no lines, and so none of the run's 7 requests" in said.out
    assert "exported for another period, account, key or filter" in said.out
    assert f"The run asked {WHERE} from 2026-06-28 12:00:00 to" in said.out
    untimed = [one.line(created_at="") for one in FIRST]
    assert "no lines with a time (4 without one)" in text(world.reconciled(untimed), Kind.NO_LINES)


def test_a_bill_of_strangers_only_is_an_alarm_that_names_them(world: World) -> None:
    rows = [Asked(at=-9e5, tokens=(1, 1)).line(model_permaslug="other/m")]
    found = world.write().reconciled(rows)
    said = text(found, Kind.ELSEWHERE)
    assert "of other/m" in said
    assert "of that account and key, and settled already?" in said


def test_an_alarm_still_says_what_is_there_in_the_runs_own_hour(world: World) -> None:
    rows = [Asked(at=15, tokens=(50_000, 9)).line()]
    found = world.write().reconciled(rows)
    assert kinds(found) == {Kind.ELSEWHERE, Kind.NOT_ON_TAPES}


def test_a_bill_in_another_zone_is_an_alarm_that_asks_for_it(world: World) -> None:
    rows = [
        one.line(created_at=(START + timedelta(hours=8, seconds=one.at)).isoformat()[:19])
        for one in (*FIRST, *SECOND)
    ]
    world.write()
    found = reconcile(world.run, world.bill(rows, zone_name="+08:00"))
    assert kinds(found) == {Kind.AGREED}


@pytest.mark.parametrize(
    ("hours", "given_zone", "zone", "words"),
    [
        (8.0, "", "+08:00", "8 h too late"),
        (-5.0, "", "-05:00", "5 h too early"),
        (5.75, "", "+05:45", "5.75 h too late"),
        (1.0, "", "+01:00", "1 h too late"),
        (0.0, "Asia/Shanghai", "+00:00", "8 h too early"),
        (-3.5, "+02:00", "-03:30", "5.5 h too early"),
    ],
)
def test_the_zone_that_is_suggested_is_accepted_and_right(
    world: World,
    passone: Callable[..., Said],
    hours: float,
    given_zone: str,
    zone: str,
    words: str,
) -> None:
    # The run lasts longer than an hour: some lines fall into its window all the same.
    world.tries[B, 1] = talk(4000.0, 6, size=1200)
    rows = [
        one.line(created_at=(START + timedelta(hours=hours, seconds=one.at)).isoformat()[:19])
        for one in (*FIRST, *world.tries[B, 1])
    ]
    bill = bill_of(world.root / "bill.csv", rows)
    given = ["--timezone", given_zone] if given_zone else []
    said = passone(world.write().run.root, bill, *given)
    assert said.status == 3
    assert f"UNEXPLAINED: the bill has the run's requests {words}: its times" in said.out
    [suggested] = re.findall(r"try again with (--timezone \S+)\. ", said.out)
    assert suggested == f"--timezone {zone}"
    again = passone(world.run.root, bill, *suggested.split())
    assert (again.status, "everything is accounted for" in again.out) == (0, True), again.err


def test_no_zone_is_suggested_where_the_bill_names_its_own(world: World) -> None:
    rows = [
        one.line(created_at=(START + timedelta(hours=2, seconds=one.at)).isoformat())
        for one in (*FIRST, *SECOND)
    ]
    said = text(world.write().reconciled(rows), Kind.OTHER_ZONE)
    assert "of another zone than they say; export it again in UTC" in said


@pytest.mark.parametrize("minutes", [7, 24 * 60])
def test_no_zone_is_suggested_that_no_zone_explains(world: World, minutes: int) -> None:
    rows = [
        one.line(created_at=(START + timedelta(minutes=minutes, seconds=one.at)).isoformat()[:19])
        for one in (*FIRST, *SECOND)
    ]
    assert Kind.ELSEWHERE in kinds(world.write().reconciled(rows))


# Other runs, and passone's own requests


def another(
    world: World,
    asked: Sequence[Asked],
    name: str = "second",
    *,
    where: str = WHERE,
    begun: str = START.isoformat(),
) -> World:
    """A run beside this one, whose tapes were written while it asked."""
    there = World(world.root, name=name, where=where, begun=begun, tries={(A, 1): asked}).write()
    for tape in there.run.root.rglob("tape.jsonl*"):
        ended = (START + timedelta(seconds=asked[-1].at + 2)).timestamp()
        os.utime(tape, (ended, ended))
    return there


def named(asked: Sequence[Asked], name: str, seconds: float = 0.0) -> list[Asked]:
    return [replace(one, id=f"{name}-{n}", at=one.at + seconds) for n, one in enumerate(asked)]


@pytest.mark.parametrize("seconds", [1.0, 40.0])
@pytest.mark.parametrize("ids", [True, False])
def test_lines_of_another_run_are_of_that_run(
    world: World, passone: Callable[..., Said], seconds: float, ids: bool
) -> None:
    first, second = named(FIRST, "gen"), named(FIRST, "other", seconds)
    world.tries = {(A, 1): first}
    another(world.write(), second)
    changes = {} if ids else {"generation_id": ""}
    bill = bill_of(world.root / "b.csv", [one.line(**changes) for one in (*first, *second)])
    said = passone(world.run.root, bill)
    assert said.status == 0, said.out
    assert "explained: 4 lines are of run second" in said.out
    assert "billed twice" not in said.out


@pytest.mark.parametrize("ids", [True, False])
def test_lines_of_a_run_that_left_no_tapes_are_unexplained(world: World, ids: bool) -> None:
    first, second = named(FIRST, "gen"), named(FIRST, "other", 1.0)
    world.tries = {(A, 1): first}
    rows = [one.line(**({} if ids else {"generation_id": ""})) for one in (*first, *second)]
    found = world.write().reconciled(rows)
    assert kinds(found) == {Kind.AGREED, Kind.NOT_ON_TAPES}
    said = text(found, Kind.NOT_ON_TAPES)
    assert "4 lines of the run's model" in said
    assert "another run or somebody else uses the same key" in said
    repeats = "4 with the tokens of requests that have their line already"
    assert (repeats in said) == (not ids)


def test_where_ids_tell_a_line_of_another_id_is_no_request_of_the_run(world: World) -> None:
    first = named(FIRST, "gen")
    world.tries = {(A, 1): first}
    found = world.write().reconciled(lines(*first[1:], replace(first[0], id="other")))
    assert kinds(found) == {Kind.AGREED, Kind.NOT_ON_TAPES, Kind.NOT_ON_BILL}


def test_where_ids_tell_a_retry_of_an_unknown_id_is_explained(world: World) -> None:
    first = [*named(FIRST, "gen"), replace(RETRIED[0], at=60, ordinal=9)]
    first.append(replace(RETRIED[1], at=95, ordinal=9, id="gen-9"))
    world.tries = {(A, 1): first}
    rows = lines(*first[:4], replace(first[4], tokens=(900, 11), id="lost"), first[5])
    assert kinds(world.write().reconciled(rows)) == {Kind.AGREED, Kind.RETRIED_AND_BILLED}


def test_a_request_that_was_sent_again_may_have_two_lines(world: World) -> None:
    asked = replace(FIRST[1], again=1)
    world.tries = {(A, 1): [FIRST[0], asked]}
    found = world.write().reconciled(lines(FIRST[0], asked, asked))
    assert kinds(found) == {Kind.AGREED, Kind.BILLED_TWICE}


def test_only_tapes_of_the_time_and_the_endpoint_count_and_broken_ones_do_no_harm(
    world: World,
) -> None:
    first, second = named(FIRST, "gen"), named(FIRST, "other", 1.0)
    world.tries = {(A, 1): first}
    another(world.write(), second, "elsewhere", where="https://other.example/v1")
    tape = another(world, second, "broken").run.attempt(A, 1) / "tape.jsonl.zst"
    tape.write_bytes(b"noise")
    tape = another(world, second, "earlier").run.attempt(A, 1) / "tape.jsonl.zst"
    os.utime(tape, (0, 0))
    another(world, second, "later", begun="2026-06-29T12:00:00+00:00")
    shutil.copytree(world.run.root, world.root / "logs" / "copy")
    found = world.reconciled(lines(*first, *second))
    assert kinds(found) == {Kind.AGREED, Kind.NOT_ON_TAPES}
    assert not any(found.found.others.values())


def test_what_passone_asked_before_the_run_is_its_own_and_no_attempt(
    world: World, passone: Callable[..., Said]
) -> None:
    look = [Asked(at=-8, tokens=(31, 2)), Asked(at=-5, tokens=(60, 9), ordinal=2)]
    world.write()
    world.tape(world.run.cut_off / "doctor-1a.jsonl", Attempt("doctor", 0), 0, look).close()
    rows = lines(*look, *FIRST, *SECOND)
    found = world.reconciled(rows)
    assert kinds(found) == {Kind.AGREED, Kind.OWN_LOOK}
    assert text(found, Kind.OWN_LOOK).startswith("2 requests of passone's own look before the run")
    assert found.total.answered.requests == found.total.billed.requests == 9
    assert found.total.said.requests == 7
    # Nothing of it was cut off: a line more is somebody else's.
    said = passone(world.run.root, bill_of(world.root / "b.csv", rows))
    assert (said.status, "| doctor (before the run) |" in said.out) == (0, True)
    assert "– / 2 / 2" in said.out
    stranger = Asked(at=-2, tokens=(50_000, 9))
    assert kinds(world.reconciled(lines(*look, *FIRST, *SECOND, stranger))) == {
        Kind.AGREED,
        Kind.OWN_LOOK,
        Kind.NOT_ON_TAPES,
    }


@pytest.mark.parametrize("asked", [True, False])
def test_a_run_that_asked_no_endpoint_is_refused(world: World, asked: bool) -> None:
    world.where = "the script"
    world.tries = world.tries if asked else {}
    world.agent = "miniswe" if asked else "gold"
    world.write()
    with pytest.raises(UserError, match=r"no tape of this run holds a request to an endpoint"):
        world.reconciled([])


# Sums by the day


def day(*asked: Asked, **changes: Any) -> dict[str, Any]:
    """As OpenRouter's activity has it."""
    usage = sum((one.usage for one in asked), Usage())
    row = {
        "date": "2026-06-28",
        "model_permaslug": f"openai/{MODEL}",
        "usage": f"{usage.cost_usd:.8f}",
        "requests": len(asked),
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
    }
    return row | changes


def test_a_bill_by_the_day_is_compared_in_total_only(world: World) -> None:
    rows = [
        day(*FIRST, *SECOND),
        day(*FIRST, date="2026-06-20"),
        day(*FIRST, model_permaslug="other/m"),
    ]
    found = world.write().reconciled(rows)
    assert kinds(found) == {
        Kind.AGREED,
        Kind.OUTSIDE_WINDOW,
        Kind.OTHER_MODEL,
    }
    assert found.total.billed.requests == 7
    assert found.accounts[0].billed.requests is None
    assert found.settled


USED = sum((one.usage for one in (*FIRST, *SECOND)), Usage())
FULL = USED.cached_tokens * (IN - CACHED)


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"requests": 9}, Kind.TOTALS_DIFFER, "it may hold what others asked"),
        ({"prompt_tokens": 1}, Kind.TOTALS_DIFFER, "what the tapes have is missing from it"),
        ({"usage": f"{(USED.cost_usd or 0) + FULL:.8f}"}, Kind.CACHED_IN_FULL, "priced in full"),
        ({"usage": f"{USED.cost_usd:.2f}"}, Kind.ROUNDING, "last decimal (0.01)"),
        ({"usage": "9.00"}, Kind.COST_DIFFERS, "for the same tokens"),
        ({"usage": ""}, Kind.AGREED, "agree in total"),
    ],
)
def test_what_a_sum_can_say_it_says(
    world: World, changes: Mapping[str, Any], kind: Kind, said: str
) -> None:
    found = world.write().reconciled([day(*FIRST, *SECOND, **changes)])
    assert said in text(found, kind)
    assert found.settled == (kind.standing in (Standing.NOTE, Standing.EXPLAINED))


def test_a_sum_with_retries_in_it_is_explained(world: World) -> None:
    world.tries = {(A, 1): RETRIED}
    found = world.write().reconciled([day(RETRIED[1], requests=2, prompt_tokens=1800)])
    assert "and 1 request failed" in text(found, Kind.RETRIED_AND_BILLED)
    assert found.settled


def test_a_sum_without_prices_on_the_tapes_and_one_that_ends_early(world: World) -> None:
    world.tries = {
        (A, 1): [replace(one, priced=False) for one in FIRST],
        (B, 1): talk(86400, 2, size=9000),
    }
    found = world.write().reconciled([day(*FIRST)])
    assert kinds(found) == {Kind.AGREED, Kind.PRICE_UNKNOWN, Kind.LATE}


def test_a_sum_of_nothing_is_an_alarm(world: World) -> None:
    found = world.write().reconciled([day(*FIRST, model_permaslug="other/m")])
    assert kinds(found) == {Kind.ELSEWHERE}


# Matching


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=7),
    st.lists(st.integers(0, 70), max_size=7),
)
@PROPERTY
def test_as_many_lines_meet_requests_as_can(spans: list[tuple[int, int]], times: list[int]) -> None:
    def at(second: float) -> datetime:
        return START + timedelta(seconds=second)

    requests = [a_request(at(begun), at(begun + length)) for begun, length in spans]
    entries = [Entry(line=n, time=at(time), until=at(time)) for n, time in enumerate(times)]
    met = sweep(requests, entries, timedelta(seconds=1))
    fits = [
        [
            r.begun - timedelta(seconds=1) <= e.time <= r.ended + timedelta(seconds=1)
            for r in requests
        ]
        for e in entries
    ]
    assert len(met) == largest(fits)
    assert len({id(r) for r, _ in met}) == len({id(e) for _, e in met}) == len(met)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 20),
            st.sampled_from(["as it is", "other tokens", "later", "other model", "free"]),
        ),
        max_size=25,
    )
)
@PROPERTY
def test_every_line_is_somebodys_and_nobody_has_two_of_it(chosen: list[tuple[int, str]]) -> None:
    asked = [*talk(number=8), *RETRIED, *talk(3.0, 8), *talk(700.0, 3)]
    requests = [a_request(START, START, one) for one in asked]
    entries = []
    for line, (place, change) in enumerate(chosen):
        entry = an_entry(line, asked[place])
        if change == "other tokens":
            entry = replace(entry, input_tokens=1 + (entry.input_tokens or 0) * 6 // 5)
        elif change == "later":
            entry = replace(entry, time=entry.time + timedelta(hours=9))
        elif change == "other model":
            entry = replace(entry, model="other")
        elif change == "free":
            entry = replace(entry, input_tokens=0, output_tokens=0, cost_usd=0.0)
        entries.append(entry)
    tries = [Try(attempt=A, number=1, requests=requests, cut=True)]
    bill = Bill(path=Path("b"), preset="", entries=sorted(entries, key=lambda entry: entry.time))
    found = match(bill, tries, Window.of(requests), timedelta(seconds=60))
    left = (*found.free, *found.strangers, *found.outside, *found.entries)
    assert sorted(entry.line for entry in (*found.ours, *left)) == list(range(len(chosen)))
    further = (Kind.BILLED_TWICE, Kind.CUT_TAPE)
    met = [id(pair.request) for pair in found.pairs if pair.kind not in further]
    assert len(met) == len(set(met))
    assert len(met) + len(found.requests) == len(requests)


def an_entry(line: int, asked: Asked) -> Entry:
    time = START + timedelta(seconds=asked.at + 1)
    tokens = asked.tokens or (5, 5)
    return Entry(
        line=line,
        time=time,
        until=time,
        model=MODEL,
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        cost_usd=price(asked.usage),
    )


def a_request(begun: datetime, ended: datetime, asked: Asked | None = None) -> Request:
    if asked is not None:
        begun = START + timedelta(seconds=asked.at)
        ended = begun + timedelta(seconds=asked.seconds)
    failed = asked is not None and asked.failed
    return Request(
        attempt=A,
        again=0,
        begun=begun,
        ended=ended,
        fate=Fate.FAILED if failed else Fate.ANSWERED,
        status=asked.status if asked else 200,
        usage=asked.usage if asked and asked.tokens else None,
        names=frozenset({MODEL}),
    )


def largest(fits: Sequence[Sequence[bool]]) -> int:
    """Size of a maximum matching, by augmenting paths."""
    owner: dict[int, int] = {}

    def augment(entry: int, seen: set[int]) -> bool:
        for request, possible in enumerate(fits[entry]):
            if possible and request not in seen:
                seen.add(request)
                if request not in owner or augment(owner[request], seen):
                    owner[request] = entry
                    return True
        return False

    return sum(augment(entry, set()) for entry in range(len(fits)))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("openai/gpt-4o", "gpt-4o-2024-08-06", True),
        ("openai/gpt-oss-120b:free", "GPT-OSS-120B", True),
        ("claude-x-20250929", "anthropic/claude-x@20250929", True),
        ("qwen2.5-coder:32b", "qwen2.5-coder:7b", False),
        ("gpt-4o", "gpt-4o-mini", False),
    ],
)
def test_a_model_is_the_same_under_any_of_its_names(one: str, other: str, same: bool) -> None:
    assert (plain(one) == plain(other)) == same


# The command


def test_the_table_has_attempts_ledgers_and_sentences(
    world: World, passone: Callable[..., Said]
) -> None:
    world.write()
    bill = bill_of(world.root / "bill.csv", lines(*FIRST, *SECOND))
    said = passone(world.run.root, bill)
    assert said.status == 0, said.err
    assert f"r: agent miniswe, {WHERE}, 2026-06-28 12:00:00 to" in said.out
    assert "7 lines, columns as openrouter" in said.out
    assert "| a-1 " in said.out
    assert "4 / 4 / 4" in said.out
    assert "7 / 7 / 7" in said.out
    assert "| gateway: answered" in said.out
    assert "7 lines on the bill, 0 not of this run; billed for it: 7 requests" in said.out
    head, _, rest = said.out.partition("\n\n")
    assert rest.startswith("everything is accounted for\n7 lines on the bill"), head
    assert rest.index("note: 7 requests") < rest.index("| instance")
    assert "gateway: discarded" not in said.out, "a row of zeros"
    total = passone(world.run.root, bill, "--by", "total")
    assert "a-1" not in total.out
    assert "agent says" in total.out


def test_what_is_not_explained_is_loud_and_leaves_three(
    world: World, passone: Callable[..., Said]
) -> None:
    world.write()
    strangers = lines(Asked(at=9e5, tokens=(1, 1)))
    said = passone(world.run.root, bill_of(world.root / "bill.csv", strangers))
    assert said.status == 3
    assert "ALARM: NOT ONE of the run's 7 requests is on this bill" in said.out
    assert "1 difference is not explained" in said.out


def test_csv_is_for_a_machine_and_sentences_go_to_stderr(
    world: World, passone: Callable[..., Said]
) -> None:
    world.write()
    bill = bill_of(world.root / "bill.csv", lines(*FIRST, *SECOND))
    said = passone(world.run.root, bill, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [(row["instance"], row["bill_requests"]) for row in rows] == [("a-1", "4"), ("b-2", "3")]
    assert "everything is accounted for" in said.err
    totals = passone(world.run.root, bill, "--format", "csv", "--by", "total")
    ledgers = [row["ledger"] for row in csv.DictReader(io.StringIO(totals.out))]
    assert ledgers[0] == "agent says"
    assert ledgers[-1] == "bill − gateway"


def test_json_holds_everything(world: World, passone: Callable[..., Said]) -> None:
    world.write()
    bill = bill_of(world.root / "bill.csv", lines(*FIRST, *SECOND, Asked(at=9e5, tokens=(1, 1))))
    said = passone(world.run.root, bill, "--format", "json")
    tree = json.loads(said.out)
    assert (tree["run"], tree["settled"], tree["endpoint"]) == ("r", True, [WHERE])
    assert tree["bill"]["columns"] == "openrouter"
    assert {finding["kind"] for finding in tree["findings"]} == {"agreed", "outside_window"}
    [outside] = [f for f in tree["findings"] if f["kind"] == "outside_window"]
    assert outside["lines"] == [9]
    assert len(tree["attempts"]) == 2
    assert said.err == ""


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--format", "xml"], "--format xml: not known; known: table, csv, json"),
        (["--slack-seconds", "nan"], "--slack-seconds nan: give 0 to 604800"),
        (["--slack-seconds", "1e12"], "--slack-seconds 1e+12: give 0 to 604800"),
        (["--by", "day"], "--by day: not known; known: attempt, total"),
        (["--columns", "nope"], "neither a file nor a preset"),
        (["--timezone", "Mars"], "time zone 'Mars' is not known"),
        (["--columns", "litellm"], "has no column startTime"),
    ],
)
def test_a_mistake_costs_one_line(
    world: World, passone: Callable[..., Said], extra: list[str], said: str
) -> None:
    world.write()
    bill = bill_of(world.root / "bill.csv", lines(*FIRST))
    found = passone(world.run.root, bill, *extra)
    assert (found.status, found.out) == (2, "")
    assert said in found.err


def test_a_directory_that_is_no_run_is_refused(
    tmp_path: Path, passone: Callable[..., Said]
) -> None:
    bill = bill_of(tmp_path / "bill.csv", lines(*FIRST))
    found = passone(tmp_path, bill)
    assert (found.status, "no run is there" in found.err) == (2, True)


def test_help_shows_two_worked_examples(passone: Callable[..., Said]) -> None:
    said = passone("--help")
    assert said.out.count("passone reconcile logs/") == 2


def test_the_worked_example_of_the_docs_is_what_the_command_prints(
    world: World, passone: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Asked(at=60, tokens=None, ordinal=4, failed=True, status=502, seconds=30)
    again = Asked(at=95, tokens=(2700, 61), cached=1_800, ordinal=4, again=1)
    world.tries[B, 1] = [*SECOND, failed, again]
    answered = [*FIRST, *SECOND, again]
    rows = [one.line(cost_total=f"{price(one.usage, IN):.6f}") for one in answered]
    rows.append(failed.line(tokens_prompt=2700, tokens_completion=18, cost_total="0.008370"))
    rows.append(Asked(at=-86_400, tokens=(812, 44)).line(cost_total="0.003096"))
    rows.append(Asked(at=33, tokens=(90_210, 512)).line(cost_total="0.278310"))
    world.write()
    bill_of(world.root / "activity.csv", rows)
    monkeypatch.chdir(world.root)
    said = passone("logs/r", "activity.csv", "--by", "total")
    [example] = re.findall(r"```text\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert said.status == 3
    assert said.out == example


def test_the_docs_name_every_preset_and_every_finding() -> None:
    page = DOCS.read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in PRESETS)
    assert all(f"`{kind}`" in page for kind in Kind)
    assert all(f"`{name}`" in page for name in Columns.model_fields)


def test_columns_of_a_file_work_from_the_command_line(
    world: World, passone: Callable[..., Said]
) -> None:
    world.write()
    rows = [
        {"wann": row["created_at"], "ein": row["tokens_prompt"], "aus": row["tokens_completion"]}
        for row in lines(*FIRST, *SECOND)
    ]
    columns = world.root / "columns.yaml"
    columns.write_text("{time: wann, input: ein, output: aus}")
    assert columns_of(str(columns)).time == ("wann",)
    said = passone(
        world.run.root,
        bill_of(world.root / "b.csv", rows),
        "--columns",
        columns,
        "--slack-seconds",
        5,
    )
    assert said.status == 0, said.out
    assert "columns by a mapping" in said.out
