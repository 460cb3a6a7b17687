"""The registry of checks, and the walk through it: what costs nothing first, money last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import requests
from docker.errors import DockerException

from pipeline.docker.images import short
from pipeline.doctor import endpoint, habits, machine, settings, smoke
from pipeline.doctor.checks import Answer, Area, Check, Probe, State, fail, of_error, skipped
from pipeline.doctor.visit import Patient, Visit
from pipeline.outcomes import InfraError, UserError

SETTINGS = (
    Probe(name="base URL", area=Area.SETTINGS, ask=settings.base_url, decisive=True),
    Probe(name="model name", area=Area.SETTINGS, ask=settings.model_name, decisive=True),
    Probe(name="key", area=Area.SETTINGS, ask=settings.key, decisive=True),
    Probe(name="environment", area=Area.SETTINGS, ask=settings.environment, after=("base URL",)),
)
MACHINE = (
    Probe(name="python", area=Area.PYTHON, ask=machine.python),
    Probe(name="tools", area=Area.PYTHON, ask=machine.tools),
    Probe(name="agent", area=Area.AGENT, ask=machine.agent),
    Probe(name="dataset", area=Area.DATASET, ask=machine.dataset),
    Probe(name="docker", area=Area.DOCKER, ask=machine.docker, after=("dataset",)),
    Probe(
        name="images", area=Area.IMAGES, ask=machine.images, needs=("dataset",), after=("docker",)
    ),
    Probe(name="disk", area=Area.DISK, ask=machine.disk, after=("docker", "images")),
)
TO_TRY = ("agent", "dataset", "docker")
"""Without these an agent cannot be tried out."""
DECISIVE = (
    Probe(
        name="address",
        area=Area.ENDPOINT,
        ask=endpoint.address,
        needs=("base URL", "model name", "key"),
        after=("environment",),
        decisive=True,
    ),
    Probe(
        name="key accepted",
        area=Area.ENDPOINT,
        ask=endpoint.key_accepted,
        needs=("address",),
        decisive=True,
    ),
    Probe(
        name="model id",
        area=Area.ENDPOINT,
        ask=endpoint.model_id,
        needs=("address",),
        decisive=True,
    ),
    Probe(
        name="completion",
        area=Area.ENDPOINT,
        ask=endpoint.completion,
        needs=("key accepted", "model id"),
        decisive=True,
    ),
    Probe(
        name="tool call",
        area=Area.ENDPOINT,
        ask=endpoint.tool_call,
        needs=("completion",),
        decisive=True,
    ),
)
HABITS = tuple(
    Probe(name=name, area=Area.ENDPOINT, ask=ask, needs=needs, after=after)
    for name, ask, needs, after in (
        ("parallel calls", habits.parallel_calls, ("tool call",), ()),
        ("sampling", habits.sampling, ("completion",), ()),
        ("seed", habits.seed, ("completion",), ()),
        ("streaming", habits.streaming, ("completion",), ()),
        ("repeatability", habits.repeatability, ("completion",), ("sampling",)),
        # These read what the ones before them brought.
        ("usage", habits.usage, ("completion",), ()),
        ("cached tokens", habits.cached_tokens, ("completion",), ()),
        ("price", habits.price, ("completion",), ()),
        ("latency", habits.latency, ("completion",), ()),
    )
)
SMOKE = tuple(
    Probe(name=name, area=Area.SMOKE, ask=ask, needs=needs, decisive=True)
    for name, ask, needs in (
        ("container", smoke.container, ()),
        ("request", smoke.request, ("container",)),
        ("model", smoke.model, ("request",)),
        ("action", smoke.action, ("request", "model")),
        ("thought", smoke.thought, ("request", "model", "action")),
        ("observation", smoke.observation, ("request", "model", "action")),
        ("next turn", smoke.next_turn, ("request", "model")),
        ("figures", smoke.figures, ("request",)),
        ("end", smoke.end, ("request", "model", "action", "next turn", "figures")),
    )
)
"""What a small try of the agent shows; the first of them makes it."""
UNASKED = (Probe(name="endpoint", area=Area.ENDPOINT, ask=settings.replies),)


def registry(patient: Patient) -> tuple[Probe, ...]:
    """All checks of a full examination, in their order."""
    if patient.asks_endpoint:
        return (*SETTINGS, *MACHINE, *DECISIVE, *HABITS)
    return (*MACHINE, *UNASKED)


def wanted(probes: Sequence[Probe], areas: Collection[Area]) -> list[Probe]:
    """Those of the areas, and what they need."""
    names = {probe.name for probe in probes if probe.area in areas}
    for probe in reversed(probes):
        if probe.name in names:
            names |= {*probe.needs, *probe.after}
    return [probe for probe in probes if probe.name in names]


def examine(visit: Visit, areas: Collection[Area] = tuple(Area)) -> Iterator[Check]:
    """Every check of some areas, as it is done. One that fails stops only what needs it."""
    yield from walk(visit, wanted(registry(visit.patient), areas))


def short_form(visit: Visit) -> Iterator[Check]:
    """Settings, key, one completion with the agent's own tool; of a visit that is `short`."""
    yield from walk(visit, (*SETTINGS, *DECISIVE) if visit.patient.asks_endpoint else UNASKED)


def smoke_form(visit: Visit) -> Iterator[Check]:
    """The short form with what the agent needs here; then, if nothing failed, a small try of it."""
    asks = visit.patient.asks_endpoint
    here = [replace(one, decisive=True) for one in MACHINE if one.name in TO_TRY]
    failed = False
    for check in walk(visit, (*SETTINGS, *here, *DECISIVE) if asks else (*here, *UNASKED)):
        failed = failed or check.state is State.FAIL
        yield check
    probes = SMOKE if visit.patient.agent.asks_model else (SMOKE[0], SMOKE[-1])
    blocked = {"what failed above"} if failed else set()
    yield from walk(visit, [replace(one, needs=(*blocked, *one.needs)) for one in probes], blocked)


def preflight(patient: Patient) -> Sequence[Check]:
    """The short form, before a run; nothing where no endpoint is asked."""
    if not patient.asks_endpoint:
        return ()
    with Visit(patient=patient, short=True).held() as visit:
        return list(short_form(visit))


def walk(visit: Visit, probes: Sequence[Probe], known: Collection[str] = ()) -> Iterator[Check]:
    """Ask one after the other; what needs something `known` to be wrong is not asked."""
    blocked = set(known)
    for probe in probes:
        lacking = [name for name in probe.needs if name in blocked]
        answer = skipped(f"needs {' and '.join(lacking)}") if lacking else ask(probe, visit)
        if answer.blocks:
            blocked.add(probe.name)
        softened = answer.state is State.FAIL and not probe.decisive
        yield Check(
            name=probe.name,
            area=probe.area,
            state=State.WARN if softened else answer.state,
            detail=visit.redacted(answer.detail),
            remedy=visit.redacted(answer.remedy),
            raw=visit.redacted(answer.raw),
        )


def ask(probe: Probe, visit: Visit) -> Answer:
    """One check; whatever goes wrong in it is its answer."""
    try:
        return probe.ask(visit)
    except UserError as error:
        return of_error(error)
    except InfraError as error:
        return fail(error.detail)
    except (DockerException, requests.RequestException) as error:
        return fail(f"Docker failed: {short(error)}")
    except Exception as error:  # noqa: BLE001 - the border of a check
        return fail(
            f"the check itself broke: {type(error).__name__}: {error}",
            "this is a bug of passone's: please report it",
        )


def widest(patient: Patient) -> int:
    """The length of the longest name, for a table that is printed as it grows."""
    return max(len(probe.name) for probe in (*registry(patient), *SMOKE))
