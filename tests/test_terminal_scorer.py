"""A machine is graded as its agent left it, and what an agent planted there counts for nothing."""

from __future__ import annotations

import pytest

from pipeline.benchmarks.terminal import places
from pipeline.domain import (
    Attempt,
    Cause,
    Finding,
    Reference,
    Snapshot,
    Tally,
)
from pipeline.outcomes import InfraError
from pipeline.sites import MachineSite
from tests.workshop import DOCKERFILE, SOLUTION, TEST, Workshop, base, workshop

__all__ = ["base", "workshop"]

pytestmark = pytest.mark.docker


def test_the_oracle_passes_and_doing_nothing_fails_in_one_place(workshop: Workshop) -> None:
    instance = workshop.task("a")
    gold = workshop.score(instance, Reference("a"))
    assert (gold.finding, gold.reward) == (Finding.RESOLVED, 1.0)
    assert gold.evidence.image_digest == workshop.scorer.place(instance)
    for nothing in (None, Snapshot(instance.image)):
        empty = workshop.score(instance, nothing)
        assert (empty.finding, empty.reward) == (Finding.UNRESOLVED, 0.0)
        assert empty.evidence.image_digest == gold.evidence.image_digest
    assert list(workshop.machines.snapshots) == []


def test_what_an_agent_has_left_is_graded_and_can_be_graded_again(workshop: Workshop) -> None:
    instance = workshop.task("a")
    snapshot = workshop.left_by(instance, "echo yes > done")
    assert list(workshop.machines.snapshots) == [snapshot.image]
    for _ in range(2):
        assert workshop.score(instance, snapshot).finding is Finding.RESOLVED
    workshop.machines.discard([snapshot.image, instance.image])
    assert list(workshop.machines.snapshots) == []
    assert workshop.client.images.get(instance.image).tags
    with pytest.raises(InfraError, match="no longer here"):
        workshop.score(instance, snapshot)


PLANTED = {
    "a reward": "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
    "a link for the rewards": "mkdir -p /own /logs; echo 1 > /own/reward.txt; "
    "ln -s /own /logs/verifier",
    "tests of its own": "mkdir /tests; printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt' "
    "> /tests/test.sh; chmod 555 /tests/test.sh; chattr +i /tests/test.sh",
    "a link for the tests": "mkdir /own; ln -s /own /tests; echo exit > /own/test.sh",
    "a process": "nohup sh -c 'while :; do mkdir -p /logs/verifier; "
    "echo 1 > /logs/verifier/reward.txt; done' > /dev/null 2>&1 &",
}


@pytest.mark.parametrize("script", PLANTED.values(), ids=PLANTED)
def test_what_an_agent_plants_gets_it_nothing(script: str, workshop: Workshop) -> None:
    quiet = TEST.replace("> /logs/verifier/reward.txt", "> /dev/null")
    told = workshop.task("told")
    snapshot = workshop.left_by(told, script)
    assert not workshop.score(told, snapshot).passed
    # Even where the tests themselves say nothing.
    silent = workshop.task("silent", quiet)
    verdict = workshop.score(silent, snapshot)
    assert (verdict.finding, verdict.reward) == (Finding.TESTS_DID_NOT_RUN, None)


@pytest.mark.parametrize(
    "script",
    ["ln -s /tests /tests", "rm -rf /logs; echo > /logs", "rm -rf /logs; ln -s /logs /logs"],
)
def test_a_machine_that_an_agent_left_in_no_state_to_be_started_may_be_its_own_doing(
    script: str, workshop: Workshop
) -> None:
    instance = workshop.task("a")
    with pytest.raises(InfraError) as caught:
        workshop.score(instance, workshop.left_by(instance, script))
    assert caught.value.fault.died
    assert workshop.score(instance, Reference("a")).passed


def test_without_a_shell_nothing_starts_and_the_oracle_still_passes(workshop: Workshop) -> None:
    instance = workshop.task("a")
    snapshot = workshop.left_by(instance, "echo yes > done; rm -f /bin/bash /usr/bin/bash")
    assert workshop.score(instance, snapshot).finding is Finding.TESTS_DID_NOT_RUN
    assert workshop.score(instance, Reference("a")).passed


SAID = {
    "0.25": (Finding.UNRESOLVED, 0.25),
    "1.0": (Finding.RESOLVED, 1.0),
    "nan": (Finding.TESTS_DID_NOT_RUN, None),
    "7": (Finding.TESTS_DID_NOT_RUN, None),
    "": (Finding.TESTS_DID_NOT_RUN, None),
}


def test_every_reward_is_what_it_says_or_none(workshop: Workshop) -> None:
    instance = workshop.task("a", "#!/bin/bash\ncat /work/said > /logs/verifier/reward.txt\n")
    for said, expected in SAID.items():
        verdict = workshop.score(instance, workshop.left_by(instance, f"echo '{said}' > said"))
        assert (verdict.finding, verdict.reward) == expected, said


def test_what_tests_write_beside_their_reward_is_kept_up_to_a_size(workshop: Workshop) -> None:
    out = "/logs/verifier/test-stdout.txt"
    test = f"#!/bin/bash\necho why > {out}; truncate --size 2G /logs/verifier/ctrf.json\n"
    workdir = workshop.run.partial("score", "a")
    workshop.scorer.score(Attempt("a", 1), workshop.task("a", test), None, workdir)
    assert (workdir / "test-stdout.txt").read_text() == "why\n"
    assert (workdir / "ctrf.json").stat().st_size < 2 << 20


def test_a_reward_of_two_gigabytes_is_not_read(workshop: Workshop) -> None:
    test = "#!/bin/bash\ntruncate --size 2G /logs/verifier/reward.txt\n"
    verdict = workshop.score(workshop.task("a", test), None)
    assert verdict.finding is Finding.TESTS_DID_NOT_RUN
    assert "more than" in verdict.evidence.reasons[0]


def test_tests_that_hang_run_out_of_their_own_time(workshop: Workshop) -> None:
    toml = "[verifier]\ntimeout_sec = 1\n"
    verdict = workshop.score(workshop.task("a", "#!/bin/bash\nsleep 60\n", toml), None)
    assert verdict.finding is Finding.TESTS_TIMED_OUT
    assert verdict.seconds < 30


def test_a_dockerfile_that_fails_is_the_images_fault_with_its_last_words(
    workshop: Workshop,
) -> None:
    broken = f"{DOCKERFILE}RUN echo before; echo no such thing >&2; exit 3\n"
    instance = workshop.task("a", dockerfile=broken)
    with pytest.raises(InfraError) as caught:
        workshop.scorer.place(instance)
    assert caught.value.cause is Cause.IMAGE
    assert "no such thing" in caught.value.detail
    assert "buildx" not in caught.value.detail
    assert "Dockerfile" in caught.value.detail


def test_a_build_that_hangs_is_ended(workshop: Workshop) -> None:
    toml = "[environment]\nbuild_timeout_sec = 2\n"
    instance = workshop.task("a", toml=toml, dockerfile=f"{DOCKERFILE}RUN sleep 300\n")
    with pytest.raises(InfraError, match="took longer than 2 s"):
        workshop.scorer.place(instance)


def test_an_agent_finds_its_limits_its_variables_and_no_network(workshop: Workshop) -> None:
    toml = (
        '[environment]\nmemory_mb = 128\ncpus = 1\nnetwork_mode = "no-network"\nenv = {A = "b c"}\n'
    )
    instance = workshop.task("a", toml=toml)
    with workshop.machines.site(instance, Attempt("a", 1)) as site:
        assert isinstance(site, MachineSite)
        assert site.workdir == "/work"
        container = workshop.client.containers.get(site.container)
        host = container.attrs["HostConfig"]
        assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (128 << 20, 10**9, 200)
        _, output = container.exec_run(["sh", "-c", 'echo "$A"; grep -c eth /proc/net/dev'])
        assert output == b"b c\n0\n"


def test_windows_line_ends_keep_no_script_from_running(workshop: Workshop) -> None:
    instance = workshop.task("a", TEST.replace("\n", "\r\n"))
    assert workshop.score(instance, Reference("a")).passed


def test_a_healthcheck_that_never_succeeds_is_the_places_fault(workshop: Workshop) -> None:
    toml = '[environment.healthcheck]\ncommand = "false"\nretries = 2\ninterval_sec = 0.1\n'
    instance = workshop.task("a", toml=toml)
    with (
        pytest.raises(InfraError, match="healthcheck failed 2 times"),
        workshop.machines.open(instance),
    ):
        pass


CLERK = f"{DOCKERFILE}RUN useradd clerk && chown clerk /work\n"


def test_tests_can_be_put_out_of_the_way_while_what_an_agent_made_runs(workshop: Workshop) -> None:
    hidden = TEST.replace(
        "\n",
        "\nmv /tests /hidden\n[ -e /tests ] && exit\nmv /hidden /tests\nls /tests/test.sh &&",
        1,
    )
    instance = workshop.task("a", hidden)
    assert workshop.score(instance, Reference("a")).passed


def test_somebody_who_is_not_root_runs_scripts_that_nobody_made_executable(
    workshop: Workshop,
) -> None:
    toml = '[agent]\nuser = "clerk"\n[verifier]\nuser = "clerk"\n'
    test = TEST.replace("cat /work/done)", "cat /work/done)$(whoami)").replace("yes", "yesclerk")
    instance = workshop.task("a", test, toml, CLERK)
    assert workshop.score(instance, Reference("a")).passed


def test_a_solution_finds_the_folders_for_its_logs_and_may_write_there(workshop: Workshop) -> None:
    places = ("/logs/agent", "/logs/verifier", "/logs/artifacts")
    solution = f"#!/bin/bash\nset -e\n{''.join(f'echo > {one}/a; ' for one in places)}{SOLUTION}"
    instance = workshop.task(
        "a", toml='[agent]\nuser = "clerk"\n', dockerfile=CLERK, solution=solution
    )
    assert workshop.score(instance, Reference("a")).passed


ENTRY = """ENTRYPOINT ["sh", "-c", "whoami >> /work/up; exec \\"$0\\" \\"$@\\""]\n"""
WELL = '[environment.healthcheck]\ncommand = "test -s up"\ninterval_sec = 0.1\nretries = 100\n'


def test_what_an_image_starts_is_there_for_the_solution_and_not_for_the_tests(
    workshop: Workshop,
) -> None:
    test = TEST.replace("cat /work/done)", "cat done up)").replace("yes", "$'yes\\nroot'")
    instance = workshop.task("a", test, f'{WELL}[agent]\nuser = "clerk"\n', f"{CLERK}{ENTRY}")
    assert workshop.score(instance, Reference("a")).passed


OLDER = {
    "Dockerfile": DOCKERFILE,
    "docker-compose.yaml": "services:\n  client:\n    build: {dockerfile: Dockerfile}\n"
    "    environment:\n      - TEST_DIR=${T_BENCH_TEST_DIR}\n"
    "    volumes:\n      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}\n",
    "solution.sh": "set -e\necho > /logs/a; echo > /agent-logs/a\necho yes > done\n",
    "run-tests.sh": 'echo "=== short test summary info ==="\nsource $TEST_DIR/set-up.sh\n'
    'if [ "$(cat done)" = yes ]; then echo PASSED t::a; else echo "FAILED t::a - no"; fi\n',
    "tests/set-up.sh": "cd /work\n",
}


def test_a_task_of_the_older_layout_is_graded_by_what_its_tests_print(workshop: Workshop) -> None:
    instance = workshop.older("a", OLDER)
    gold, empty = (workshop.score(instance, one) for one in (Reference("a"), None))
    assert (gold.finding, gold.reward, gold.fail_to_pass) == (Finding.RESOLVED, 1.0, Tally(1, 1))
    assert (empty.finding, empty.reward) == (Finding.UNRESOLVED, 0.0)


def test_a_task_that_changed_since_it_was_drawn_is_not_graded(workshop: Workshop) -> None:
    instance = workshop.task("a")
    (workshop.root / "tasks" / "a" / "instruction.md").write_text("Do another thing.\n")
    with pytest.raises(InfraError, match="has changed since it was drawn"):
        places.task_in(instance)


def test_what_keeps_an_oracle_from_passing_is_told(workshop: Workshop) -> None:
    broken = "#!/bin/bash\nsleep 1234 &\necho no such tool >&2\nexit 4\n"
    verdict = workshop.score(workshop.task("a", solution=broken), Reference("a"))
    left = "what ran after it was ended before the tests: `sleep 1234`"
    said = (f"the reference solution exited with 4: no such tool; {left}", "reward 0")
    assert verdict.evidence.reasons == said
    silent = workshop.task("b", "#!/bin/bash\necho too early\n")
    assert workshop.score(silent, None).evidence.reasons == (
        "the tests left neither reward.txt nor reward.json; the tests exited with 0: too early",
    )


SUMMARY = "echo '= short test summary info ='"
OUTPUTS = {
    "echo no pytest here; exit 127": "pytest printed no short test summary (does run-tests.sh call "
    "it with -rA?); the tests exited with 127: no pytest here",
    f"{SUMMARY}; echo FAILED t::a - no; echo ERROR b.py": "failed: t::a, b.py",
    f"{SUMMARY}; echo SKIPPED t::a": "no test passed",
}


def test_what_the_older_layouts_tests_failed_at_is_told(workshop: Workshop) -> None:
    for number, (script, reason) in enumerate(OUTPUTS.items()):
        instance = workshop.older(f"a{number}", {**OLDER, "run-tests.sh": f"{script}\n"})
        assert workshop.score(instance, None).evidence.reasons == (reason,)
