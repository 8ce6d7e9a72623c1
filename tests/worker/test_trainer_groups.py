"""Control groups of trainers: limits, placing, removal, and their absence."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.worker.conftest import ROOT
from tests.worker.endings import end_by_a_run

from adaptlab.control_groups import controllers, delegated_group
from adaptlab_worker.attempt.run_failures import trainer_gone
from adaptlab_worker.confinement.confinement import TrainerLimits
from adaptlab_worker.errors import TrainerGone
from adaptlab_worker.trainer.memory_kills import MemoryKills
from adaptlab_worker.trainer.trainer_groups import TrainerGroups, set_limits, trainer_groups
from adaptlab_worker.trainer.trainer_process import TrainerOptions, TrainerProcess

GIB = 2**30
MARK = "user.delegate"
FILES = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux's control groups")


def a_group(path: Path, *, is_marked: bool = False, able: str = "cpu memory pids") -> Path:
    """Make a folder with the files that a kernel puts into a group."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup.controllers": able, "cgroup.subtree_control": ""}.items():
        (path / name).write_text(text)
    if is_marked:
        try:
            os.setxattr(path, MARK, b"1")
        except OSError as error:
            pytest.skip(f"files here have no attributes of users: {error}")
    return path


def delegated(hierarchy: Path, name: str) -> Path | None:
    """Return the delegated group of a process in the group of that name."""
    own = hierarchy.parent / "own"
    own.write_text(f"4:cpu:/elsewhere\n0::{name}\n")
    return delegated_group(hierarchy, own)


def test_a_group_that_systemd_delegates_is_used_and_no_other(tmp_path: Path) -> None:
    hierarchy = a_group(tmp_path / "cgroup")
    a_group(hierarchy / "session.scope")
    service = a_group(hierarchy / "lab.service", is_marked=True)
    a_group(service / "main" / "inner")
    assert delegated(hierarchy, "/lab.service") == service
    assert delegated(hierarchy, "/lab.service/main") == service, "DelegateSubgroup="
    assert delegated(hierarchy, "/lab.service/main/inner") is None
    assert delegated(hierarchy, "/session.scope") is None, "root can write to it all the same"
    assert delegated(hierarchy, "/") is None, "the machine's own"


def test_a_container_whose_groups_are_its_own_may_divide_them(tmp_path: Path) -> None:
    hierarchy = a_group(tmp_path / "cgroup")
    (hierarchy / "cgroup.type").write_text("domain")
    assert delegated(hierarchy, "/") == hierarchy
    a_group(hierarchy, able="cpu pids")
    assert delegated(hierarchy, "/") is None, "without the memory controller"
    assert delegated_group(hierarchy, tmp_path / "missing") is None


def test_nothing_is_delegated_on_a_machine_with_version_1(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:memory:/lab\n")
    assert delegated_group(a_group(tmp_path / "cgroup"), own) is None


def test_limits_are_written_to_the_files_that_the_kernel_has(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).touch()
    set_limits(tmp_path, TrainerLimits(memory_bytes=3 * GIB, processes=64))
    written = {name: (tmp_path / name).read_text() for name in FILES}
    assert written == dict(zip(FILES, (str(3 * GIB), "0", "1", "64"), strict=True))


def test_a_kernel_without_swap_has_no_limit_of_it(tmp_path: Path) -> None:
    (tmp_path / "memory.max").touch()
    set_limits(tmp_path, TrainerLimits(memory_bytes=GIB))
    assert [path.name for path in tmp_path.iterdir()] == ["memory.max"]


@pytest.fixture
def trainer(group: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainerProcess]:
    """A trainer with a real control group of its own."""
    process = a_trainer(group, "tests.worker.runners:complete", monkeypatch)
    yield process
    process.close()


def a_trainer(group: Path, runner: str, monkeypatch: pytest.MonkeyPatch) -> TrainerProcess:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    limits, groups = TrainerLimits(memory_bytes=GIB), trainer_groups(os.getpid(), group)
    assert groups is not None
    return TrainerProcess(TrainerOptions(runner=runner, limits=limits, groups=groups))


def groups_in(group: Path) -> list[str]:
    """The groups of trainers."""
    return [path.name for path in group.glob("trainer-*")]


def test_a_trainer_is_in_its_group_before_it_is_ready_and_the_group_ends_with_it(
    group: Path, trainer: TrainerProcess
) -> None:
    assert trainer.await_ready(lambda: False)
    (name,) = groups_in(group)
    assert name.startswith(f"trainer-{os.getpid()}-")
    assert str(trainer.pid) in (group / name / "cgroup.procs").read_text().split()
    groups_of_trainer = Path(f"/proc/{trainer.pid}/cgroup").read_text().splitlines()
    assert f"0::/{group.name}/{name}" in groups_of_trainer
    trainer.close()
    assert groups_in(group) == []


@pytest.fixture
def controller(group: Path) -> Iterator[str]:
    """A controller of the group: memory, else any that it can have."""
    present = sorted(controllers(group), key=lambda name: name != "memory")
    unused = sorted(controllers(group.parent))
    if present:
        yield present[0]
    elif unused:
        (group.parent / "cgroup.subtree_control").write_text(f"+{unused[0]}")
        yield unused[0]
        (group / "cgroup.subtree_control").write_text(f"-{unused[0]}")
        (group.parent / "cgroup.subtree_control").write_text(f"-{unused[0]}")
    else:
        pytest.skip("this machine's control groups of version 2 have no controllers")


def test_the_worker_makes_room_in_a_group_that_has_processes(
    group: Path, controller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controllers can be enabled only where no process is."""
    monkeypatch.setattr("adaptlab_worker.trainer.trainer_groups.CONTROLLERS", (controller,))
    with subprocess.Popen(["sleep", "60"]) as neighbour:
        (group / "cgroup.procs").write_text(str(neighbour.pid))
        with pytest.raises(OSError, match="busy"):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
        assert trainer_groups(os.getpid(), group) is not None
        where = Path(f"/proc/{neighbour.pid}/cgroup").read_text()
        neighbour.kill()
    assert f"0::/{group.name}/adaptlab\n" in where
    assert controllers(group, "cgroup.subtree_control") == {controller}
    assert groups_in(group) == [], "the one that was tried out is gone"


IN_A_GROUP = """
import sys
from adaptlab_worker.confinement.confinement import Limits, confine
confine(Limits.model_validate_json(sys.argv[1]))
held = [bytearray(b"x" * 2**20) for _ in range(300)]
"""


def test_a_process_that_needs_too_much_memory_is_killed_in_its_group(
    group: Path, controller: str
) -> None:
    """The kernel's own limit, without that of each process."""
    if controller != "memory":
        pytest.skip("the memory controller of this machine is of version 1")
    groups = trainer_groups(os.getpid(), group)
    assert groups is not None
    greedy = groups.create(TrainerLimits(memory_bytes=100 * 2**20))
    limits = TrainerLimits(memory_bytes=4 * GIB, group=str(greedy.path)).model_dump_json()
    done = subprocess.run([sys.executable, "-c", IN_A_GROUP, limits], check=False)
    assert (done.returncode, greedy.ran_out_of_memory()) == (-signal.SIGKILL, True)
    greedy.remove()
    assert groups_in(group) == []


def test_processes_of_a_run_that_need_too_much_together_end_it_as_out_of_memory(
    group: Path, controller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if controller != "memory":
        pytest.skip("the memory controller of this machine is of version 1")
    trainer = a_trainer(group, "tests.security.confined_runs:multiply", monkeypatch)
    try:
        assert trainer.await_ready(lambda: False)
        run = trainer.run_folder(Path("given"))
        run.mkdir()
        gone = end_by_a_run(trainer, run, "together they needed more than")
    finally:
        trainer.close()
    assert trainer_gone(gone, 3, MemoryKills()).reason == "out_of_memory"
    assert groups_in(group) == []


def test_groups_of_killed_workers_are_removed(group: Path) -> None:
    (group / f"trainer-{2**22 + 1}-1").mkdir()  # nobody's process id
    (group / f"trainer-{os.getpid()}-7").mkdir()
    TrainerGroups(group, os.getpid()).remove_abandoned()
    assert groups_in(group) == [f"trainer-{os.getpid()}-7"]


def test_a_group_that_cannot_be_divided_leaves_trainers_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = a_group(tmp_path / "lab.service")
    assert trainer_groups(os.getpid(), folder) is None
    assert "trainers get no control groups" in caplog.text


def test_a_trainer_that_the_kernel_killed_in_its_group_was_out_of_memory(
    trainer: TrainerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its count is a file here: the hierarchy may lack the memory controller."""
    (tmp_path / "memory.events").write_text("oom 1\noom_kill 3\noom_group_kill 1\n")
    group = trainer._control_group  # pyright: ignore[reportPrivateUsage]
    assert group is not None
    assert trainer.await_ready(lambda: False)
    monkeypatch.setattr(group, "path", tmp_path)
    os.kill(trainer.pid, signal.SIGKILL)
    with pytest.raises(TrainerGone, match="more than the 1,024 MiB") as gone:
        trainer.receive(60)
    monkeypatch.undo()
    assert trainer_gone(gone.value, 3, MemoryKills()).reason == "out_of_memory"
