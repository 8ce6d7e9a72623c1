"""A failure is repeated if the machine stood still meanwhile, and only then."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.standstills import LONG, Watch

HOOKS = """
from tests.standstills import pytest_runtest_protocol, pytest_terminal_summary
"""
TESTS = """
import os, signal, subprocess, time
from pathlib import Path
import pytest

RUNS = Path(__file__).with_name("runs")

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

def test_stopped_once(fresh):
    first = times("stopped_once") == 1
    fresh.append(first)
    assert len(fresh) == 1
    if first:
        stand_still()
    assert not first

def test_stopped_always():
    times("stopped_always")
    stand_still()
    assert False

def test_stopped_and_good():
    times("stopped_and_good")
    stand_still()

def test_wrong():
    times("wrong")
    assert False

@pytest.fixture(scope="module")
def late():
    if times("in_a_fixture") == 1:
        stand_still()
        raise TimeoutError("nobody came")

def test_in_a_fixture(late):
    pass

def test_of_the_same_fixture(late):
    times("of_the_same_fixture")
"""


def test_only_what_failed_while_the_machine_stood_still_is_run_again(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(HOOKS)
    (tmp_path / "test_stand_in.py").write_text(TESTS)
    options = ["-q", "-rA", "--tb=no", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-n", "1", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    told: list[tuple[str, str]] = re.findall(r"(PASSED|FAILED) \S+::test_(\w+)", done.stdout)
    ended = {name: how for how, name in told}
    assert ended == {
        "stopped_once": "PASSED",
        "stopped_always": "FAILED",
        "stopped_and_good": "PASSED",
        "wrong": "FAILED",
        "in_a_fixture": "PASSED",
        "of_the_same_fixture": "PASSED",
    }, done.stdout + done.stderr
    runs = (tmp_path / "runs").read_text().split()
    assert {name: runs.count(name) for name in ended} == {
        "stopped_once": 2,
        "stopped_always": 3,
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
