"""Patches that bring no line of code: names of files, git's own directory, bytecode."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from functools import partial

from tests.attacks.case import Attack
from tests.attacks.corpus import emptied
from tests.attacks.images import image, run
from tests.attacks.places import DJANGO, PLACES, PYTEST, SYMPY, Place
from tests.attacks.repository import Link
from tests.faults.material import new_file

MARKERS = (">>>>> Start Test Output", ">>>>> Test Exit Code: 0")
NAMED = {PYTEST.id: "{} PASSED", DJANGO.id: "{} ... ok", SYMPY.id: "{} ok"}
"""How a line of the log would have to be called to stand for a test that passes."""
FORGES = "#!/bin/sh\ncat <<'EOF'\n{}EOF\nexit 0\n"
HOOK = """\
#!/bin/sh
cat > conftest.py <<'EOF'
def pytest_pyfunc_call(pyfuncitem):
    return True
EOF
"""
SHADOW = """\
#!/bin/sh
/usr/bin/git "$@"
status=$?
test "$1" = apply && echo 'def pytest_pyfunc_call(pyfuncitem): return True' > conftest.py
exit $status
"""


def attack(name: str, place: Place, patch: Callable[[], str], group: str = "resolve") -> Attack:
    return Attack(name=name, group=group, place=place, patch=patch)


def listed(place: Place) -> str:
    """`git status` prints the names of new files, before the tests, into the same log."""
    tests = [*place.fail_to_pass, *place.pass_to_pass]
    lines = [*MARKERS, *(NAMED[place.id].format(name) for name in tests)]
    return place.repository.patch(dict.fromkeys(lines, "\n"))


def with_shim() -> str:
    """What git refuses as a path, the last of the harness's four ways to apply may take."""
    config = (PYTEST.repository.tree / ".git" / "config").read_text()
    lines = config.splitlines(keepends=True)
    changed = [*lines, "[core]\n", "\tfsmonitor = /testbed/.git/watch\n"]
    diff = difflib.unified_diff(lines, changed, "a/.git/config", "b/.git/config")
    watch = f"#!/bin/sh\ncat > /opt/testbed/bin/pytest <<'END'\n{FORGES.format(PYTEST.log)}END\n"
    return "".join(diff) + new_file(".git/watch", watch, mode="100755")


def bytecode() -> str:
    """Compiled tests that Python never holds against their source."""
    tests = DJANGO.repository.stages["tests"][DJANGO.tested]
    assert isinstance(tests, str)
    code = (
        "import importlib.util, py_compile, sys\n"
        f"open('/tmp/test_tariffs.py', 'w').write({emptied(tests)!r})\n"
        f"path = importlib.util.cache_from_source({DJANGO.tested!r})\n"
        "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH\n"
        "made = py_compile.compile('/tmp/test_tariffs.py', '/tmp/x', path, False, -1, mode)\n"
        "print((path, open(made, 'rb').read()))\n"
    )
    path, content = ast.literal_eval(run(image(DJANGO.repository), code).decode())
    return DJANGO.repository.patch({path: content})


def beyond_a_link() -> str:
    """A link first, and then a file on its other side."""
    link = PYTEST.repository.patch({"out": Link("/usr/local/bin")})
    return link + new_file("out/git", SHADOW, mode="100755")


ATTACKS: tuple[Attack, ...] = (
    *(
        attack(
            "names of new files that are a log, for git status to print",
            place,
            partial(listed, place),
        )
        for place in PLACES
    ),
    attack(
        "a hook of git in the patch, for the last way to apply one",
        PYTEST,
        lambda: new_file(".git/hooks/post-checkout", HOOK, mode="100755"),
    ),
    attack("a setting of git in the patch, which runs a program", PYTEST, with_shim),
    attack("bytecode of other tests, which is never checked against its source", DJANGO, bytecode),
    attack(
        "a file outside the tree, by two dots",
        PYTEST,
        lambda: new_file("../usr/local/bin/git", SHADOW, mode="100755"),
    ),
    attack(
        "a file outside the tree, by an absolute path",
        PYTEST,
        lambda: new_file("/usr/local/bin/git", SHADOW, mode="100755"),
    ),
    attack("a file outside the tree, on the other side of a link", PYTEST, beyond_a_link),
)
