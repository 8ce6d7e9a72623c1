"""Trainers killed by the kernel for memory, and by somebody else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec
from tests.worker.conftest import Control, Watched, runner_options, serving

from adaptlab_db.tables import AttemptRow
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_worker.trainer.memory_kills import MemoryKills

Sessions = sessionmaker[Session]
OLD, NEW = "4:memory:/lab/worker\n0::/\n", "0::/lab/worker\n"


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    ("groups", "path", "text"),
    [
        (NEW, "sys/fs/cgroup/lab/worker/memory.events", "low 0\noom 3\noom_kill {}\n"),
        (NEW, "sys/fs/cgroup/memory.events", "oom_kill {}\noom_group_kill 0\n"),
        (OLD, "sys/fs/cgroup/memory/lab/worker/memory.oom_control", "under_oom 0\noom_kill {}\n"),
        (OLD, "sys/fs/cgroup/memory/memory.oom_control", "oom_kill {}\n"),
        (NEW, "proc/vmstat", "pgfault 1\noom_kill {}\nother 3\n"),
        ("", "proc/vmstat", "oom_kill {}\n"),
    ],
    ids=["group", "container", "old-group", "old-container", "machine", "no-groups"],
)
def test_each_kill_for_want_of_memory_is_told_once(
    tmp_path: Path, groups: str, path: str, text: str
) -> None:
    write(tmp_path, "proc/self/cgroup", groups)
    write(tmp_path, "proc/vmstat", "oom_kill 5\n")
    write(tmp_path, path, text.format(5))
    kills = MemoryKills(tmp_path)
    assert not kills.is_there_another()
    write(tmp_path, path, text.format(7))
    assert [kills.is_there_another() for _ in range(3)] == [True, True, False]
    write(tmp_path, path, text.format(8))
    kills.forget_earlier()
    assert not kills.is_there_another()


def test_what_happens_to_others_on_the_machine_is_nothing_of_ours(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", NEW)
    write(tmp_path, "sys/fs/cgroup/lab/worker/memory.events", "oom_kill 0\n")
    write(tmp_path, "proc/vmstat", "oom_kill 5\n")
    kills = MemoryKills(tmp_path)
    write(tmp_path, "proc/vmstat", "oom_kill 6\n")
    assert not kills.is_there_another()


def test_where_nothing_can_be_read_nothing_is_claimed(tmp_path: Path) -> None:
    assert not MemoryKills(tmp_path).is_there_another()


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group of the older kind, with 100 MiB."""
    group = Path(f"/sys/fs/cgroup/memory/adaptlab-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory control group can be made here: {error}")
    try:
        (group / "memory.limit_in_bytes").write_text("100M")
        yield group
    finally:
        group.rmdir()


IN_A_GROUP = """
import os, signal, subprocess, sys
from adaptlab_worker.trainer.memory_kills import MemoryKills

open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
kills = MemoryKills()
for code in (sys.argv[2], "import os; os.kill(os.getpid(), 9)"):
    status = subprocess.run([sys.executable, "-c", code]).returncode
    print(status == -signal.SIGKILL, kills.is_there_another())
"""


def test_the_kernel_of_this_machine_says_so(small_group: Path) -> None:
    greedy = "held = [bytearray(b'x' * 2**20) for _ in range(300)]"
    said = subprocess.run(
        [sys.executable, "-c", IN_A_GROUP, str(small_group), greedy],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert said.stdout.splitlines() == ["True True", "True False"]


@pytest.mark.parametrize(
    ("runner", "reason", "attempts"),
    [("killed_for_memory", "out_of_memory", 2), ("killed", "killed", 3)],
)
def test_a_job_for_which_memory_was_lacking_twice_is_not_tried_again(
    ledger: DatabaseLedger,
    sessions: Sessions,
    watched: Watched,
    control: Control,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runner: str,
    reason: str,
    attempts: int,
) -> None:
    monkeypatch.setattr("adaptlab_services.leases.lease_ends.FIRST_BACKOFF", 0.1)
    write(control.folder, "proc/self/cgroup", "0::/\n")
    write(control.folder, "sys/fs/cgroup/memory.events", "oom_kill 3")
    options = runner_options(monkeypatch, control, runner)
    options = replace(options, memory_kills=MemoryKills(control.folder))
    with sessions.begin() as session:
        job_id = a_job(session, a_pretrain_spec(seeds=1))
    with serving(ledger, options, tmp_path):
        job = watched.wait_for_state(job_id, "failed")
    assert (job.reason, job.attempt) == (reason, attempts)
    assert ("ran out of memory" in str(job.error)) is (reason == "out_of_memory")
    with sessions.begin() as session:
        assert set(session.scalars(select(AttemptRow.reason))) == {reason}
