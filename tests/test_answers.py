"""Tests that expect something else fail where nobody looks; other words change no result."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from pipeline.benchmarks.answers import other_answers, other_words
from pipeline.benchmarks.bench import PLANT
from pipeline.benchmarks.cases import Module, written
from pipeline.benchmarks.scrutiny import Kind
from tests.attacks.corpus import hashes

MODULE = '''\
import unittest
import pytest
from maths import add, name, fail, true, none


def test_number():
    assert add(1, 2) == 3


def test_words():
    assert name("Ä", "b") == "Ä-b", "a message"


def test_both():
    assert add(1, 1) == 2 and name("a", "b") == "a-b"


def test_list():
    assert [add(1, 1), add(2, 2)] == [
        2,
        4,
    ]


def test_truth():
    assert true()


def test_untruth():
    assert not none()


def test_nothing():
    assert none() is None


def test_error():
    with pytest.raises(ValueError, match="no"):
        fail()


def test_variable():
    expected = "a-b"
    assert name("a", "b") == expected


@pytest.mark.parametrize(("a", "b", "total"), [(1, 2, 3), (0, 0, 0)], ids=["some", "none"])
def test_many(a, b, total):
    assert add(a, b) == total


def test_says_nothing():
    add(1, 2)


def test_does_not_matter():
    assert add(1, 2) == 3


class Case(unittest.TestCase):
    def test_equal(self):
        """Adds."""
        self.assertEqual(add(1, 2), 3)

    def test_true(self):
        self.assertTrue(true())

    def test_none(self):
        self.assertIsNone(none())

    def test_raises(self):
        with self.assertRaises(ValueError):
            fail()
        self.assertRaises(ValueError, fail)
'''
MATHS = """\
def add(a, b): return a + b
def name(a, b): return f"{a}-{b}"
def fail(): raise ValueError("no")
def true(): return True
def none(): return None
"""
READS = """\
import re
import pathlib

TEXT = pathlib.Path(__file__).with_name("test_it.py").read_text()


def name(a, b): return dict(re.findall(r'name\\("(.*?)", "b"\\) == "(.*?)"', TEXT))[a]
"""
ANSWERS = [
    "test_number",
    "test_words",
    "test_both",
    "test_list",
    "test_truth",
    "test_untruth",
    "test_nothing",
    "test_error",
    "test_variable",
    "test_many[some]",
    "test_many[none]",
    "test_equal",
    "test_true",
    "test_none",
    "test_raises",
]


def run(place: Path, source: bytes, maths: str = MATHS) -> dict[str, str]:
    """How each test ends."""
    (place / "maths.py").write_text(maths)
    (place / "test_it.py").write_bytes(source)
    argv = [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", "test_it.py"]
    said = subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False).stdout
    lines = [line.split() for line in said.splitlines()]
    ends = {w[1].rpartition("::")[2]: w[0] for w in lines if w and w[0] in ("PASSED", "FAILED")}
    assert ends, said
    return ends


def wanted() -> set[str]:
    return {name.partition("[")[0] for name in [*ANSWERS, "test_says_nothing"]}


def test_every_way_to_expect_something_is_made_to_fail(tmp_path: Path) -> None:
    found = other_answers(MODULE.encode(), wanted())
    assert found is not None
    ends = run(tmp_path, found.source)
    assert ends == dict.fromkeys(ANSWERS, "FAILED"), "the others are taken out"
    assert "Adds." in found.names
    assert "test_does_not_matter" not in found.names


def test_who_reads_what_a_test_expects_passes_it(tmp_path: Path) -> None:
    found = other_answers(MODULE.encode(), wanted())
    assert found is not None
    assert run(tmp_path, found.source, MATHS + READS)["test_words"] == "PASSED"


def test_a_file_that_says_nothing_is_left_alone() -> None:
    assert other_answers(b"def test_a():\n    print(1)\n", {"test_a"}) is None
    assert other_answers(b"X = 1\n", {"test_a"}) is None
    assert other_answers(b"def test_a(:\n", {"test_a"}) is None
    assert other_answers(MODULE.encode(), {"test_elsewhere"}) is None


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("f() == b'a'", "f() == b'ax'"),
        ("f() == ''", 'f() == "x"'),
        ("f() == 'it is \"so\"'", "f() == 'it is \"so\"x'"),
        ("f() == -1.5", "f() == -2.5"),
        ("f() is True", "f() is False"),
        ("f() == None", "f() == True"),
        ("3 == f()", "4 == f()"),
        ("f() == Form(1, 2)", "f() == Form(2, 2)"),
        ("f()", "not f()"),
        ("f() and g().h", "not f() and not g().h"),
        ("not f()", "f()"),
        ("f() == f'{a}'", "f() == f'{a}'"),
        ("f() == ...", "f() == ..."),
    ],
)
def test_what_is_written_instead(said: str, instead: str) -> None:
    found = other_answers(
        f"def test_a():\n    assert 0 == 1\n    assert {said}\n".encode(), {"test_a"}
    )
    assert found is not None
    assert found.source.decode().splitlines()[2] == f"    assert {instead}"


def test_other_words_change_no_result(tmp_path: Path) -> None:
    found = other_words(MODULE.encode(), "_mark")
    assert found is not None
    assert run(tmp_path, found) == run(tmp_path, MODULE.encode())


def test_other_words_share_no_source_and_no_code_with_the_first() -> None:
    found = other_words(MODULE.encode(), "_mark")
    assert found is not None
    assert set(hashes(found.decode())).isdisjoint(hashes(MODULE))
    assert codes(found).isdisjoint(codes(MODULE.encode()))


def codes(source: bytes) -> set[bytes]:
    whole = [compile(source, "test_it.py", "exec")]
    found: set[bytes] = set()
    for code in whole:
        inner = [one for one in code.co_consts if hasattr(one, "co_code")]
        whole += inner
        found |= {one.co_code for one in inner if one.co_name.startswith("test")}
    return found


def test_other_words_keep_docstrings_and_mend_encodings() -> None:
    found = other_words('# coding: latin-1\ndef test_a():\n    "Ä."\n'.encode("latin-1"), "_m")
    assert found is not None
    function = ast.parse(found).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert ast.get_docstring(function) == "Ä."
    assert other_words(b"X = 1\n", "_m") is None


def test_new_test_files_of_verified_say_what_they_expect(shared: Path) -> None:
    """Of the files whose whole text is in the data: the new ones."""
    rows = pd.read_parquet(shared / "verified.parquet", columns=["test_patch", "FAIL_TO_PASS"])
    mattering = asked = 0
    for patch, names in rows.itertuples(index=False):
        words = set(re.findall(r"\w+", str(names)))
        for part in patch.split("diff --git ")[1:]:
            if "\nnew file mode" not in part or not part.splitlines()[0].endswith(".py"):
                continue
            lines = [line[1:] for line in part.splitlines() if line.startswith("+")][1:]
            file = Module.read("\n".join([*lines, ""]).encode())
            if file and any(not case.names.isdisjoint(words) for case in file.cases):
                mattering += 1
                asked += other_answers(file.text.encode(), words) is not None
    assert asked == mattering > 0


@pytest.mark.parametrize(
    "content",
    [
        b"def test_a():\r    assert f() == 1\r",
        b"def test_a():\n    assert f() == 0x" + b"f" * 6000 + b"\n",
        b"def test_a():\n    f" + b"(1)" * 2500 + b"\n",
        b"def test_a():\n    assert " + b"(" * 5000 + b")" * 5000 + b"\n",
    ],
    ids=["line ends of old", "a huge number", "calls of calls", "brackets"],
)
def test_a_file_that_was_made_to_be_unreadable_is_nobodys_fault_but_its_makers(
    content: bytes,
) -> None:
    for kind in Kind:
        written(partial(PLANT[kind], wanted={"test_a"}), content)
    written(partial(other_words, mark="_m"), content)
    assert written(partial(PLANT[Kind.OTHER_ANSWERS], wanted={"test_a"}), content) is None
