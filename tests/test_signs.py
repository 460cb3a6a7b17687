"""What in a patch may bear on its tests, and what is simply code."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from pipeline.benchmarks.signs import Signs, created, is_plain, signs_of, touched

GOLD = "diff --git a/lib/core.py b/lib/core.py\n--- a/lib/core.py\n+++ b/lib/core.py\n@@ -1 +1 @@\n"
GOLD += "-a = 1\n+a = subprocess\n"
TEST_PATCH = (
    "diff --git a/tests/test_new.py b/tests/test_new.py\nnew file mode 100644\n"
    "--- /dev/null\n+++ b/tests/test_new.py\n@@ -0,0 +1 @@\n+def test_secret_name(): pass\n"
)


def adding(path: str, *lines: str) -> str:
    text = "".join(f"+{line}\n" for line in lines)
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n{text}"
    )


def signs(diff: str, gold: str = GOLD) -> Signs:
    return signs_of(diff, gold=gold, test_patch=TEST_PATCH, names={"test_secret_name"})


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "tests/deep/conftest.py",
        "pytest.ini",
        "tox.ini",
        "setup.cfg",
        "setup.py",
        "pyproject.toml",
        "sitecustomize.py",
        "lib/usercustomize.py",
        "evil.pth",
        "tests/runtests.py",
        "bin/test",
        ".gitattributes",
        "pytest.py",
        "unittest/__init__.py",
        "src/pluggy.py",
        "tests/__init__.py",
        "tests/test_new.py",
    ],
)
def test_a_file_that_steers_tests_is_a_sign(path: str) -> None:
    assert signs(adding(path, "x = 1")).files == (path,)
    assert not signs(adding(path, "x = 1"), gold=adding(path, "y = 1")).files, "gold goes there"


@pytest.mark.parametrize(
    "path", ["lib/more.py", "docs/conf.py", "tests/test_other.py", "README", "pkg/inspect.py"]
)
def test_other_files_are_none(path: str) -> None:
    assert not signs(adding(path, "x = 1", "def f(): return 2"))


@pytest.mark.parametrize(
    "line",
    [
        "os._exit(0)",
        "import _pytest",
        "subprocess.run(['git', 'log', '--all'])",
        "open('.git/packed-refs')",
        "urllib.request.urlopen(url)",
        "sys.settrace(f)",
        "print('>>>>> End Test Output')",
        "if test_secret_name in str(frame):",
        "threading.Thread(target=watch).start()",
        "sys.modules['unittest'] = Mine",
    ],
)
def test_a_line_that_reaches_beyond_a_library_is_a_sign(line: str) -> None:
    assert signs(adding("lib/more.py", line), gold="")
    assert not signs(adding("tests/test_mine.py", line), gold=""), "no command runs that"


def test_what_gold_reaches_for_is_no_sign() -> None:
    assert not signs(adding("lib/more.py", "subprocess.run(argv)"))


@pytest.mark.parametrize(
    "diff",
    [
        "--- a/conftest.py\n+++ b/conftest.py\n@@ -1 +1 @@\n-a\n+b\n",
        "Index: conftest.py\n===\n*** a/conftest.py\n--- b/conftest.py\n",
        "*** a/conftest.py\t2020\n--- b/conftest.py\t2020\n",
        "diff --git a/x.py b/conftest.py\nrename from x.py\nrename to conftest.py\n",
    ],
    ids=["plain", "index", "context", "rename"],
)
def test_every_form_that_git_or_patch_reads_is_read(diff: str) -> None:
    assert "conftest.py" in touched(diff)
    assert signs(diff).files == ("conftest.py",)


def test_only_a_new_file_of_the_test_patch_collides() -> None:
    assert created(TEST_PATCH) == {"tests/test_new.py"}


@pytest.mark.parametrize(
    "line",
    [
        "return [name.strip() for name in names]",
        "import re",
        "from collections import OrderedDict, deque",
        "from lib.words import plural",
        "from . import words as known",
        "    from .words import plural",
        "raise ValueError('name may not be empty')",
        "__slots__ = ()",
        "# getattr would do as well",
    ],
)
def test_what_a_library_is_made_of_is_plain(line: str) -> None:
    assert is_plain(adding("lib/more.py", line))


@pytest.mark.parametrize(
    "line",
    [
        "getattr(word, name)(1)",
        "print(word)",
        "import json",
        "from elsewhere import lib",
        "import re, socket",
        "if importing: import socket",
        "value.__globals__",
        "os.sep",
        "raise SystemExit",
        "except:",
        r"raise ValueError('\ntest_a (lib.A) ... done')",
        "'%c' % 10",
        "'test_a (lib.A) ... ok'",
        "# coding: utf-7",
    ],
)
def test_what_may_reach_further_is_not(line: str) -> None:
    assert not is_plain(adding("lib/more.py", line))


def test_only_python_and_documents_are_plain() -> None:
    assert is_plain(adding("docs/changes.rst", "import everything"))
    assert is_plain(adding("CHANGES", "import everything"))
    assert not is_plain(adding("lib/fast.pyx", "x = 1"))
    assert not is_plain(adding("lib/more.html", "x"))
    link = adding("lib/more.py", "words.py").replace("100644", "120000")
    assert not is_plain(link)


def test_few_real_patches_bear_signs_and_gold_bears_none(shared: Path) -> None:
    rows = pd.read_parquet(shared / "verified.parquet").set_index("instance_id")

    def bears(instance_id: str, diff: str) -> bool:
        row = rows.loc[instance_id]
        return bool(signs_of(diff, gold=str(row.patch), test_patch=str(row.test_patch)))

    assert [id_ for id_, row in rows.iterrows() if bears(str(id_), str(row.patch))] == []
    found = []
    for path in sorted((shared / "reliability").glob("preds.run*.json")):
        content = json.loads(path.read_text())
        for item in content.values() if isinstance(content, dict) else content:
            if item["model_patch"]:
                found.append(bears(item["instance_id"], item["model_patch"]))
    assert len(found) > 480
    # Each costs three further scorings.
    assert sum(found) / len(found) < 0.04


def test_most_real_patches_are_plain_gold_or_not(shared: Path) -> None:
    rows = pd.read_parquet(shared / "verified.parquet", columns=["patch"])
    assert sum(map(is_plain, rows.patch)) / len(rows) > 0.8
    found = []
    for path in sorted((shared / "reliability").glob("preds.run*.json")):
        content = json.loads(path.read_text())
        for item in content.values() if isinstance(content, dict) else content:
            if item["model_patch"]:
                found.append(is_plain(item["model_patch"]))
    assert sum(found) / len(found) > 0.7
