"""A marked test is repeated only if it failed in a standstill."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.standstills import LONG, Watch

pytestmark = pytest.mark.long("tests of tests")

HOOKS = """
from tests.standstills import (
    pytest_runtest_protocol, pytest_runtest_setup, pytest_sessionfinish, pytest_terminal_summary
)

def pytest_configure(config):
    config.addinivalue_line("markers", "may_stand_still(why): ...")
"""
TESTS = """
import os, signal, subprocess, time
from pathlib import Path
import pytest

RUNS = Path(__file__).with_name("runs")
of_time = pytest.mark.may_stand_still("its limit is a second")

def times(name):
    with RUNS.open("a") as file:
        print(name, file=file)
    return RUNS.read_text().split().count(name)

def stand_still():
    subprocess.Popen(["sh", "-c", f"sleep 1.4; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)

@pytest.fixture
def fresh():
    return []

@of_time
def test_stopped_once(fresh):
    first = times("stopped_once") == 1
    fresh.append(first)
    assert len(fresh) == 1
    if first:
        stand_still()
    assert not first

@of_time
def test_stopped_always():
    times("stopped_always")
    stand_still()
    assert False

def test_stopped_without_a_marker():
    times("stopped_without_a_marker")
    stand_still()
    assert False

@of_time
def test_stopped_and_good():
    times("stopped_and_good")
    stand_still()

@of_time
def test_wrong():
    times("wrong")
    assert False

@pytest.fixture(scope="module")
def late():
    if times("in_a_fixture") == 1:
        stand_still()
        raise TimeoutError("nobody came")

@of_time
def test_in_a_fixture(late):
    pass

@of_time
def test_of_the_same_fixture(late):
    times("of_the_same_fixture")
"""


ONE_PROCESS = ("-n", "1")  # of xdist, beside the one that reports
ALONE = ("-p", "no:xdist")


def run_tests(
    repository: Path,
    folder: Path,
    tests: Mapping[str, str],
    processes: Sequence[str] = ALONE,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run tests, by their place in the folder, with the hooks of this suite."""
    (folder / "conftest.py").write_text(HOOKS)
    for place, text in tests.items():
        (folder / place).mkdir(exist_ok=True)
        (folder / place / f"test_{place or 'stand_in'}.py").write_text(text)
    options = ["-q", "-rA", "--tb=no", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *processes, str(folder)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(repository)} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_only_what_failed_while_the_machine_stood_still_is_run_again(
    repository: Path, tmp_path: Path
) -> None:
    done = run_tests(repository, tmp_path, {"": TESTS}, ONE_PROCESS)
    told: list[tuple[str, str]] = re.findall(r"(PASSED|FAILED) \S+::test_(\w+)", done.stdout)
    ended = {name: how for how, name in told}
    assert ended == {
        "stopped_once": "PASSED",
        "stopped_always": "FAILED",
        "stopped_without_a_marker": "FAILED",
        "stopped_and_good": "PASSED",
        "wrong": "FAILED",
        "in_a_fixture": "PASSED",
        "of_the_same_fixture": "PASSED",
    }, done.stdout + done.stderr
    runs = (tmp_path / "runs").read_text().split()
    assert {name: runs.count(name) for name in ended} == {
        "stopped_once": 2,
        "stopped_always": 3,
        "stopped_without_a_marker": 1,
        "stopped_and_good": 1,
        "wrong": 1,
        "in_a_fixture": 2,
        "of_the_same_fixture": 1,
    }
    again = re.findall(r"RUN AGAIN \S+::test_(\w+): .* ([\d.]+) s", done.stdout)
    assert sorted(name for name, _ in again) == [
        "in_a_fixture",
        *["stopped_always"] * 2,
        "stopped_once",
    ]
    assert all(float(seconds) > 1 for _, seconds in again)


OFTEN = """
import pytest
from tests.standstills import STOOD_STILL

@pytest.mark.parametrize("number", range({tests}))
def test_passed_at_last(request, number):
    request.node.user_properties.append((STOOD_STILL, "1.0"))
"""


@pytest.mark.parametrize(
    ("tests", "ci", "processes", "code"),
    [(3, "true", ALONE, 0), (4, "true", ALONE, 1), (4, "true", ONE_PROCESS, 1), (4, "", ALONE, 0)],
)
def test_ci_fails_after_more_than_three_repetitions(
    repository: Path, tmp_path: Path, tests: int, ci: str, processes: Sequence[str], code: int
) -> None:
    done = run_tests(repository, tmp_path, {"": OFTEN.format(tests=tests)}, processes, CI=ci)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.count("RUN AGAIN") == tests
    assert ("4 repetitions; CI allows 3" in done.stdout) is bool(code)


MARKED = """
import pytest

@pytest.mark.may_stand_still({why})
def test_marked():
    pass
"""


def test_a_marker_without_a_reason_or_where_a_stall_must_be_survived_is_refused(
    repository: Path, tmp_path: Path
) -> None:
    reasons = {"chaos": '"slow"', "worker": '"slow"', "other": ""}
    tests = {place: MARKED.format(why=why) for place, why in reasons.items()}
    done = run_tests(repository, tmp_path, tests)
    assert done.returncode != 0
    told = dict(re.findall(r"ERROR (\w+)/test_\w+\.py::test_marked - .*(never|needs)", done.stdout))
    assert told == {"chaos": "never", "worker": "never", "other": "needs"}, done.stdout


def test_a_watch_that_begins_late_counts_from_where_it_was_asked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = Watch()
    start = watch._thread.start  # pyright: ignore[reportPrivateUsage] - what a busy machine delays

    def late() -> None:
        threading.Event().wait(1.0)
        start()

    monkeypatch.setattr(watch._thread, "start", late)  # pyright: ignore[reportPrivateUsage]
    with watch:
        pass
    assert watch.longest > LONG
