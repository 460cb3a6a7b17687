"""What is handed on works without the checkout: wheel, sdist, citation, completion, site."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline import __version__
from tests import reference

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAM = "import sys; from pipeline.cli import main; sys.argv[0] = 'passone'; main()"


def needs(module: str) -> pytest.MarkDecorator:
    reason = f"{module} is not installed; `make dev` installs it"
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=reason)


def call(argv: Sequence[object], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program that must succeed."""
    done = subprocess.run(
        list(map(str, argv)),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def build(kind: str, source: Path, place: Path) -> Path:
    """The sdist or wheel of a tree, with no download: the backend is here."""
    call([sys.executable, "-P", "-m", "hatchling", "build", "-t", kind, "-d", place], source)
    [made] = place.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
        for item in archive.infolist():
            # As pip does, and `zipfile` does not: what can be executed stays so.
            if item.external_attr >> 16 & 0o111:
                (place / item.filename).chmod(0o755)
    return place


def content(place: Path) -> Mapping[str, bytes]:
    files = [path for path in place.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}


@needs("hatchling")
def test_the_wheel_holds_every_file_of_the_package(unpacked: Path) -> None:
    assert content(unpacked / "pipeline") == content(ROOT / "pipeline")


@needs("hatchling")
def test_the_wheel_says_what_it_is_and_under_which_licence(unpacked: Path) -> None:
    [about] = unpacked.glob("*.dist-info")
    assert about.name == f"passone-{__version__}.dist-info"
    assert content(about / "licenses") == {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    metadata = (about / "METADATA").read_text(encoding="utf-8")
    assert "License-Expression: MIT\n" in metadata
    assert metadata.endswith((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {path.name for path in unpacked.iterdir()} == {"pipeline", about.name}


@needs("hatchling")
def test_the_sdist_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "tree", filter="data")
    [tree] = (tmp_path / "tree").iterdir()
    for name in ("configs", "notebooks", "docs", "tests/data"):
        assert content(tree / name) == content(ROOT / name)
    assert build("wheel", tree, tmp_path / "wheel").read_bytes() == wheel.read_bytes()


@needs("hatchling")
@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["sample", "--dataset", "demo", "--strategy", "all", "-o", "-"],
        ["sample", "--benchmark", "terminal", "--dataset", "demo", "--strategy", "all", "-o", "-"],
        ["plan", "--within", "5"],
        ["doctor", "--write-config", "v1"],
        ["demo", "--size", "1", "--sandbox", "local", "--quiet"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_it_works_without_the_checkout(
    words: Sequence[str], unpacked: Path, tmp_path: Path
) -> None:
    argv = [sys.executable, "-c", PROGRAM, *words]
    here = call(argv, tmp_path, PYTHONPATH=str(ROOT)) if words[0] != "demo" else None
    there = call(argv, tmp_path, PYTHONPATH=str(unpacked))
    assert there.stdout == here.stdout if here else "1 resolved" in there.stdout


# Whom to cite


def test_the_citation_says_what_the_project_says() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["title"] == PROJECT["name"]
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == [{"name": "The passone authors"}]


# What the shell completes


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("passone dem", ["demo"]),
        ("passone demo --s", ["--size", "--sandbox"]),
        ("passone run configs/", []),  # bash goes on with files
    ],
)
def test_bash_completes(line: str, offered: list[str], tmp_path: Path) -> None:
    program = tmp_path / "passone"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}\n")
    program.chmod(0o755)
    words = line.split()
    script = (
        "source <(passone --show-completion)\n"
        f"COMP_WORDS=({' '.join(words)}) COMP_CWORD={len(words) - 1}\n"
        '_passone_completion passone; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = call(["bash", "-c", script], tmp_path, PATH=path, PYTHONPATH=str(ROOT))
    assert done.stdout.split() == offered


# What one reads


def test_the_page_of_commands_is_what_the_program_says() -> None:
    assert (ROOT / reference.PAGE).read_text(encoding="utf-8") == reference.page()


@needs("mkdocs")
@needs("material")
def test_the_site_builds_with_every_link_and_asks_no_other_host(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    call(argv, ROOT, NO_MKDOCS_2_WARNING="true")
    pages = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("index.html")}
    sources = [*ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    assert {path.relative_to(ROOT).with_suffix("").as_posix() for path in sources} < pages
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="([^"]+)"', page.read_text())
        assert [place for place in loaded if "//" in place] == []
