"""`passone bundle` and `passone verify`: a run as evidence that travels, and what it is worth."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.runs import RunArgument, run_at
from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.bundle import Check, Contents, Manifest, Part
    from pipeline.rundir import RunDir

BUNDLE_EPILOG = """Examples:

  passone bundle logs/demo -o demo.passone

  passone bundle logs/verified-5 -o small.passone --without tapes --without trajectories"""

VERIFY_EPILOG = """Examples:

  passone verify demo.passone

  passone verify demo.passone --digest 0f3c5a7790be21d4 --json"""
SHORTEST_DIGEST = 8
MOST_SHOWN = 40


def bundle(
    run: RunArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file: run.passone.")],
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART", help="tapes, trajectories, logs or artifacts; may be repeated."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a machine.")] = False,
) -> None:
    """Put a run into one file that anybody can read, and verify, without anything else.

    The same run gives the same bytes. The digest that is printed stands for all of them.
    """
    from pipeline import bundle as bundles
    from pipeline.rundir import whole

    parts = parts_named(without or ())
    place = run_at(run)
    if place.driver:
        raise UserError(
            f"{run}: a process (pid {place.driver}) drives this run; bundle it when that has ended"
        )
    with tempfile.TemporaryDirectory(prefix="passone-") as name:
        contents = bundles.Contents(Path(name), secrets=secrets_here())
        manifest = gather(contents, place, parts)
        try:
            with whole(output) as file:
                digest = bundles.write(file, manifest, contents.read)
        except OSError as error:
            raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
    for stranger in bundles.strangers(place, contents.files):
        typer.echo(f"note: left out: {stranger}: not a part of a run", err=True)
    for redacted in contents.redacted:
        typer.echo(f"note: {redacted}: a key of this environment stood there; it is gone", err=True)
    said = summary(manifest, digest) | {"file": str(output), "size": output.stat().st_size}
    typer.echo(json.dumps(said, indent=2) if as_json else f"{output}: {words(said)}")


def parts_named(names: Sequence[str]) -> list[Part]:
    from pipeline.bundle import Part

    try:
        return sorted({Part(name) for name in names})
    except ValueError as error:
        raise UserError(f"--without: {error}; known: {', '.join(Part)}") from None


def secrets_here() -> list[bytes]:
    """Values of this environment that are called a key: none may travel, whoever printed it."""
    from pipeline.agents.driving import SECRET_NAME
    from pipeline.gateway.upstream import SHORTEST_SECRET

    values = {value.strip() for name, value in os.environ.items() if SECRET_NAME.search(name)}
    found = (value for value in values if len(value) >= 2 * SHORTEST_SECRET)
    return [value.encode("utf-8", "surrogateescape") for value in sorted(found, key=len)[::-1]]


def gather(contents: Contents, place: RunDir, without: Sequence[Part]) -> Manifest:
    """Everything that goes into the bundle, and the manifest that says so.

    Raises:
        UserError: the run cannot be read, or its dataset is not what it was made with.
    """
    from dataclasses import asdict

    from pipeline import __version__, diagnose
    from pipeline.bundle import ESTIMATES, HEADLINE, INSTANCES, Manifest, Part
    from pipeline.cli.exports import estimates, headline, made_of
    from pipeline.cli.lanes import cut_off_usage
    from pipeline.cli.planning import instances_of, rows_to_carry
    from pipeline.results import load

    results = load(place, cut_off=cut_off_usage(place))
    instances = {item.id: item for item in instances_of(results.plan, place)}
    found = diagnose.diagnose(results, place, instances)
    contents.add_files(place, without)
    contents.add_ledger(place)
    rows = rows_to_carry(results.plan, instances.values())
    contents.add(INSTANCES, lines(rows))
    for name, content in made_of(results, place, found):
        contents.add(name, content)
    contents.add(HEADLINE, headline(results))
    contents.add(ESTIMATES, estimates(results))
    return Manifest(
        run=results.name,
        plan=results.plan["digest"],
        passone=__version__,
        pending=sum(row.outcome == "pending" for row in results.rows),
        left_out={name: dict(counter) for name, counter in sorted(contents.left_out.items())},
        cut_off=asdict(results.cut_off) if Part.TAPES in without else None,
        members=contents.members(),
    )


def lines(rows: Sequence[dict[str, Any]]) -> bytes:
    texts = (json.dumps(row, sort_keys=True, default=str) for row in rows)
    return "".join(f"{text}\n" for text in texts).encode()


def summary(manifest: Manifest, digest: str) -> dict[str, Any]:
    return {
        "digest": digest,
        "run": manifest.run,
        "plan": manifest.plan,
        "passone": manifest.passone,
        "pending": manifest.pending,
        "left_out": dict(manifest.left_out),
        "members": len(manifest.members),
        "bytes": manifest.bytes,
    }


def words(said: dict[str, Any]) -> str:
    """One line: the digest that may be quoted, of what, and what is not in it."""
    from pipeline.bundle import DIGEST_CHARACTERS
    from pipeline.wording import count

    partial = f"partial ({said['pending']} pending), " if said["pending"] else ""
    without = ", ".join(f"{name} ({part['files']:,})" for name, part in said["left_out"].items())
    size = f", {said['size']:,} bytes packed" if "size" in said else ""
    return (
        f"digest {said['digest'][:DIGEST_CHARACTERS]} · {said['run']}, plan {said['plan']} · "
        f"{partial}{count(said['members'], 'file')}, {said['bytes']:,} bytes{size}"
        + (f" · without {without}" if without else "")
    )


def verify(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="What `passone bundle` wrote.")],
    digest: Annotated[
        str | None, typer.Option(metavar="HEX", help="The digest that somebody quotes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a machine.")] = False,
) -> None:
    """Hold every byte of a bundle against its manifest, and recompute every number in it.

    Nothing else is needed: no dataset, network, Docker or key. Exit status 1 where something
    differs; each place is named.
    """
    from pipeline.bundle import looked_into
    from pipeline.cli.recount import recount

    if digest is not None and len(digest) < SHORTEST_DIGEST:
        raise UserError(f"--digest {digest}: give at least {SHORTEST_DIGEST} characters of it")
    if not path.is_file():
        raise UserError(f"{path}: no such file; `passone bundle RUN -o {path.name}` makes one")
    with looked_into(path) as (unpacked, run):
        checks = [whole_check(unpacked)]
        if digest is not None:
            checks.append(quoted_check(unpacked.digest, digest))
        if not unpacked.faults and unpacked.manifest is not None:
            checks += recount(run, unpacked.manifest)
    said = summary(unpacked.manifest, unpacked.digest) if unpacked.manifest else {}
    differing = [place for check in checks for place in check.differing]
    if as_json:
        from dataclasses import asdict

        tree = said | {"checks": [asdict(check) for check in checks], "differing": differing}
        typer.echo(json.dumps(tree | {"verified": not differing}, indent=2))
    else:
        tell(path, said, checks, differing)
    raise typer.Exit(1 if differing else 0)


def whole_check(unpacked: Any) -> Check:
    from pipeline.bundle import NAME, Check

    total = len(unpacked.manifest.members) + 1 if unpacked.manifest else 1
    return Check(
        kind=f"files by {NAME}", of=max(total, len(unpacked.faults)), differing=unpacked.faults
    )


def quoted_check(digest: str, quoted: str) -> Check:
    from pipeline.bundle import Check

    wanted = quoted.lower().removeprefix("sha256:")
    said = f"digest: is {digest[: max(len(wanted), 16)]}, quoted is {quoted}"
    return Check(kind="digest", of=1, differing=() if digest.startswith(wanted) else (said,))


def tell(path: Path, said: dict[str, Any], checks: Sequence[Check], differing: list[str]) -> None:
    """A line a kind, every place that differs, and the verdict last."""
    from pipeline import __version__

    typer.echo(f"{path}: {words(said)}" if said else f"{path}: no manifest to go by")
    if said and said["passone"] != __version__:
        typer.echo(f"  made by passone {said['passone']}, read by {__version__}: they may differ")
    for check in checks:
        typer.echo(f"  {check.line}")
    for place in differing[:MOST_SHOWN]:
        typer.echo(f"differs: {place}")
    if len(differing) > MOST_SHOWN:
        typer.echo(f"differs: and {len(differing) - MOST_SHOWN:,} more places; --json has all")
    if any("files by" in check.kind and check.differing for check in checks):
        typer.echo("nothing was recomputed: these are not the files that were bundled")
    total = sum(check.of for check in checks)
    if not differing:
        typer.echo(f"verified: {total:,} checks, 0 differ")
        return
    kinds = ", ".join(check.kind for check in checks if check.differing)
    typer.echo(f"not verified: {total:,} checks, {len(differing):,} differ: {kinds}")


def register(app: typer.Typer) -> None:
    app.command(epilog=BUNDLE_EPILOG)(bundle)
    app.command(epilog=VERIFY_EPILOG)(verify)
