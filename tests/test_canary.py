"""Tests that must fail: they do under every runner, and only where nobody forges."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pipeline.benchmarks import canary
from pipeline.benchmarks.canary import concerns, execution, files_of, plant, preparation, words_of

MODULE = '''\
import unittest
import pytest

X = 1


def helper():
    return 1


def test_plain():
    """Says something."""
    assert helper() == 1


def test_one_line(): assert helper() == 1


@pytest.mark.parametrize("n", [1, 2])
def test_many(
    n,
    *,
    m=(1,
       2),
):
    text = """
not indented
"""
    assert n in m and text


@pytest.mark.xfail
def test_may_fail():
    assert False


@pytest.fixture
def testing_place():
    return 1


async def test_later():
    assert True


if X:
    def test_behind_a_condition():
        with pytest.raises(ZeroDivisionError):
            1 / 0


class TestThings:
    def test_method(self):
        assert True

    class TestInner:
        def test_inner(self):
            assert True


class Case(unittest.TestCase):
    def setUp(self):
        self.value = 1

    def test_docstring(self):
        """A line that unittest prints.

        And one that it does not.
        """
        self.assertEqual(self.value, 1)

    def test_only_a_docstring(self):
        """Nothing else."""

    def test_no_docstring(self):
        self.assertTrue(True)
'''
NAMES = [
    "test_plain",
    "test_one_line",
    "test_many",
    "test_behind_a_condition",
    "test_method",
    "test_inner",
    "test_docstring",
    "test_only_a_docstring",
    "test_no_docstring",
]


def run(path: Path, *argv: str) -> str:
    done = subprocess.run(
        [sys.executable, *argv], cwd=path.parent, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def planted(source: str, *wanted: str) -> str:
    found = plant(source.encode(), set(wanted))
    assert found is not None
    return found.source.decode()


def test_every_kind_of_test_fails_under_pytest_and_nothing_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(planted(MODULE, *NAMES))
    said = run(path, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", path.name)
    failed = {line.split()[1] for line in said.splitlines() if line.startswith("FAILED")}
    assert {name.rpartition("::")[2].partition("[")[0] for name in failed} >= set(NAMES)
    assert "test_it.py::test_many[1]" in failed
    assert "PASSED" not in said
    assert "XFAIL" in said, "what may fail is left as it is"


def test_every_kind_of_test_fails_under_unittest(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(planted(MODULE, *NAMES))
    said = run(path, "-m", "unittest", "-v", "test_it.Case")
    assert "A line that unittest prints. ... " in said.replace("\n", " ")
    assert " ok" not in said
    assert "Ran 3 tests" in said


def test_names_are_those_of_functions_and_of_first_lines_of_docstrings() -> None:
    found = plant(MODULE.encode(), {"test_docstring"})
    assert found is not None
    assert {"test_docstring", "A line that unittest prints."} <= found.names
    assert "test_may_fail" not in found.names
    assert "testing_place" not in found.names


def test_of_many_tests_those_that_matter_and_a_few_others_stay(tmp_path: Path) -> None:
    source = "".join(f"def test_{n}():\n    assert True\n" for n in range(300))
    found = plant(source.encode(), {"test_7", "test_299"})
    assert found is not None
    assert {"test_7", "test_299"} <= found.names
    assert len(found.names) == 2 + canary.OTHERS
    path = tmp_path / "test_it.py"
    path.write_bytes(found.source)
    said = run(path, "-m", "pytest", "-q", "-p", "no:cacheprovider", path.name)
    assert f"{2 + canary.OTHERS} failed" in said
    assert "passed" not in said


WORKING = """\
import pytest


@pytest.fixture
def made():
    print("the fixture works")


def test_matters(made):
    \"\"\"Says so.\"\"\"
    print("it works")


def test_other(made):
    @pytest.mark.skipif(False, reason="none")
    def inner():
        pass

    print("another works")
"""


@pytest.mark.parametrize("early", [False, True])
def test_those_that_do_not_matter_fail_before_they_work_and_so_can_the_others(
    tmp_path: Path, early: bool
) -> None:
    found = plant(WORKING.encode(), {"test_matters"}, early=early)
    assert found is not None
    path = tmp_path / "test_it.py"
    path.write_bytes(found.source)
    said = run(path, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", path.name)
    assert "2 failed" in said
    assert said.count("the fixture works\n") == 2
    assert ("\nit works\n" in said) is not early
    assert "\nanother works\n" not in said


def test_they_fail_in_more_than_one_way() -> None:
    source = "".join(f"def test_{n}():\n    assert True\n" for n in range(8))
    said = planted(source, *(f"test_{n}" for n in range(8)))
    assert all(f"raise {failure}(" in said for failure in canary.FAILURES)


TOOTHLESS = {
    "assert": "import sys\nsys.flags.optimize or None\n",
    "unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n",
    "raises": "import pytest, contextlib as c\npytest.raises = lambda *a: c.suppress(Exception)\n",
}


@pytest.mark.parametrize(
    ("head", "body", "options"),
    [
        ("", "        assert 1\n", ["-O"]),
        (TOOTHLESS["unittest"], "        self.assertEqual(1, 1)\n", []),
        (
            "import contextlib\n" + TOOTHLESS["raises"],
            "        with pytest.raises(OSError):\n            open('/no/such')\n",
            [],
        ),
    ],
    ids=["-O", "assertEqual", "pytest.raises"],
)
def test_a_check_that_has_lost_its_teeth_lets_them_pass(
    head: str, body: str, options: list[str], tmp_path: Path
) -> None:
    source = f"import unittest\n{head}class T(unittest.TestCase):\n    def test_it(self):\n{body}"
    path = tmp_path / "test_it.py"
    path.write_text(planted(source, "test_it"))
    said = run(path, *options, "-m", "unittest", "-v", "test_it")
    assert "... ok" in said


def test_what_is_no_python_or_holds_no_test_is_left_alone() -> None:
    assert plant(b"def test_(:\n", {"test_"}) is None
    assert plant(b"X = 1\n", {"test_x"}) is None
    assert plant(b"\xff\xfe\x00", {"test_x"}) is None


def test_tabs_line_ends_and_encodings_are_kept(tmp_path: Path) -> None:
    source = "# -*- coding: latin-1 -*-\r\ndef test_caf\u00e9():\r\n\tassert 'caf\u00e9'\r\n"
    found = plant(source.encode("latin-1"), {"test_caf\u00e9"})
    assert found is not None
    path = tmp_path / "test_it.py"
    path.write_bytes(found.source)
    assert "1 failed" in run(path, "-m", "pytest", "-q", "-p", "no:cacheprovider", path.name)


def test_real_test_files_can_all_be_planted() -> None:
    folder = Path(pd.__file__).parent / "tests"
    if not folder.is_dir():
        pytest.skip("this pandas was installed without its tests")
    paths = sorted(folder.rglob("test_*.py"))[::10]
    assert len(paths) > 50
    holding = [path for path in paths if b"\ndef test_" in path.read_bytes()]
    assert [path.name for path in holding if plant(path.read_bytes(), set()) is None] == []


SCRIPT = """\
#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
export LANG=en_US.UTF-8
sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen
git config --global --add safe.directory /testbed
git status
git show
git -c core.fileMode=false diff abc
python -m pip install -e .
git checkout abc tests/test_x.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_x.py b/tests/test_x.py
--- a/tests/test_x.py
+++ b/tests/test_x.py
@@ -1 +1,2 @@
 pip install x
+git status
EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA tests/test_x.py
SWEBENCH_TEST_EXIT_CODE=$?
: '>>>>> End Test Output'
git checkout abc tests/test_x.py
"""


def test_preparing_again_leaves_out_what_was_done_and_never_a_line_of_the_patch() -> None:
    again = preparation(SCRIPT, again=True)
    assert "python -m pip install" not in again
    assert "locale-gen" not in again
    assert " pip install x\n+git status\nEOF" in again
    assert "git checkout abc" in again
    assert "pytest" not in again
    assert "python -m pip install -e ." in preparation(SCRIPT, again=False)


def test_the_tests_run_in_the_environment_of_the_script() -> None:
    alone = execution(SCRIPT)
    assert "conda activate testbed\ncd /testbed\nexport LANG" in alone
    assert "pytest -rA tests/test_x.py" in alone
    assert "git apply" not in alone


def test_an_environment_is_entered_once() -> None:
    twice = SCRIPT.replace(
        "git checkout abc tests/test_x.py\ngit apply",
        (
            "source /opt/miniconda3/bin/activate\nconda activate testbed\n"
            "git checkout abc tests/test_x.py\ngit apply"
        ),
    )
    assert twice != SCRIPT
    assert preparation(twice, again=True) == preparation(SCRIPT, again=True)
    assert execution(twice) == execution(SCRIPT)
    assert preparation(twice, again=False).count("conda activate") == 2


def test_every_published_script_can_be_taken_apart(shared: Path) -> None:
    frame = pd.read_parquet(shared / "verified.parquet")
    for row in frame.itertuples():
        script, patch = str(row.eval_script), str(row.test_patch)
        again = preparation(script, again=True)
        assert "git apply -v - <<'EOF" in again, row.instance_id
        assert patch.strip().splitlines()[-1] in again, row.instance_id
        assert not [line for line in again.splitlines() if line.startswith("python")]
        # One test patch changes nothing but a list that tests read.
        assert files_of(patch) or row.instance_id == "django__django-10097"
        command = script.split(canary.START)[1].strip().splitlines()[0]
        assert command in execution(script)


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("tests/test_a.py::TestB::test_c[x-1]", "test_c"),
        ("test_c (pkg.tests.test_a.B.test_c)", "test_c"),
        ("test_c (pkg.tests.B)", "test_c"),
        ("test_c", "test_c"),
        ("A line that unittest prints.", "A line that unittest prints."),
        ("tests/test_a.py::test_log[log(photon", "test_log"),
    ],
)
def test_ids_of_every_runner_are_known_by_their_function(test: str, name: str) -> None:
    assert name in words_of([test])
    assert concerns(test, {name})
    assert not concerns(test, {"test_other"})
