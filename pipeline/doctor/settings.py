"""What the config and the environment say, before anything is sent."""

from __future__ import annotations

from urllib.parse import urlsplit

from pipeline.doctor import addresses
from pipeline.doctor.checks import Answer, of_error, ok, skipped, warn
from pipeline.doctor.visit import Visit
from pipeline.gateway import check_endpoint, read_key
from pipeline.outcomes import UserError

SHORTEST_SECRET = 6
"""A shorter one stands in ordinary words."""


def base_url(visit: Visit) -> Answer:
    """Scheme and host, and the URL that requests go to."""
    model = visit.patient.recipe.model
    try:
        base = check_endpoint(model.model_copy(update={"name": "openai/any"}))
    except UserError as error:
        return of_error(as_two(error))
    visit.written_base = base
    parts = urlsplit(base)
    detail = f"{base}/chat/completions ({parts.scheme}, host {parts.hostname})"
    if model.base_url.strip().rstrip("/").endswith("/chat/completions"):
        detail += "; the pasted /chat/completions is taken off"
    if parts.scheme == "http" and not addresses.is_private(parts.hostname or ""):
        return warn(f"{detail}: the key travels unencrypted", "use https, if the endpoint has it")
    return ok(detail)


def as_two(error: UserError) -> UserError:
    """The gateway's messages of an address have their remedy behind a colon."""
    return UserError(str(error).replace(": write ", "; write ").replace(": expected ", "; write "))


def model_name(visit: Visit) -> Answer:
    model = visit.patient.recipe.model
    try:
        check_endpoint(model.model_copy(update={"base_url": "https://any"}))
    except UserError as error:
        return of_error(as_two(error))
    if model.name != model.server_id:
        return ok(f"{model.server_id!r} is what the endpoint is asked for ({model.name!r} here)")
    return ok(f"{model.server_id!r} is what the endpoint is asked for")


def key(visit: Visit) -> Answer:
    """Never says anything of the key but the name of its variable."""
    recipe, environ = visit.patient.recipe, visit.patient.environ
    variable = recipe.model.key_variable
    try:
        found = read_key(variable, environ)
    except UserError as error:
        return of_error(error)
    written = recipe.model_dump_json(exclude={"model": {"headers"}})
    if len(found) >= SHORTEST_SECRET and found in written:
        return of_error(
            UserError(
                f"the config holds the value of {variable}, which would be written to disk; "
                "leave it to model.key_variable"
            )
        )
    visit.key = found
    return ok(f"{variable} is set, and has the shape of a key")


def environment(visit: Visit) -> Answer:
    """Name what would send traffic elsewhere in another program."""
    environ, base = visit.patient.environ, visit.written_base
    notes, remedies = [], []
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        value = environ.get(name, "").strip()
        if not value:
            continue
        same = bool(base) and value.rstrip("/") == base
        notes.append(f"{name} is set and not used: model.base_url counts, agents do not inherit it")
        if not same:
            remedies.append(f'if {name} is the endpoint you mean: base_url: "${{{name}}}"')
    variable, proxy = addresses.proxy_for(base, environ) if base else ("", "")
    if proxy:
        notes.append(
            f"requests to the endpoint go through {addresses.place_of(proxy)} ({variable})"
        )
    else:
        set_ = sorted(n for n in environ if n.lower() in addresses.PROXY_VARIABLES and environ[n])
        if set_ and base:
            notes.append(f"{', '.join(set_)}: set, and not used for this endpoint")
    detail = "; ".join(notes) or "nothing is set that other programs would take for the endpoint"
    return warn(detail, "; ".join(remedies)) if remedies else ok(detail)


def replies(visit: Visit) -> Answer:
    """Stands for every question to an endpoint that nobody asks."""
    patient = visit.patient
    if not patient.agent.asks_model:
        return skipped(f"agent {patient.agent.name!r} asks no model")
    return skipped(
        f"scripted replies ({patient.recipe.model.replies}) stand in for a model: "
        "no key and no endpoint is needed"
    )
