"""What a run can do to its worker, to another slot's run and to its group."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.making import a_resolved_spec
from tests.security.neighbour_attacks import ATTEMPTS, Outcomes
from tests.worker.conftest import ROOT

from adaptlab_services.settings import Settings
from adaptlab_worker.confinement import confinement, landlock, trainer_user
from adaptlab_worker.confinement.own_users import TRAINER_USERS
from adaptlab_worker.confinement.trainer_user import TrainerUser, user_of_slot
from adaptlab_worker.loop import slot_settings
from adaptlab_worker.loop.slot_settings import slot_options
from adaptlab_worker.trainer.protocol import Ended, Message, RunRequest
from adaptlab_worker.trainer.scratch import SlotFolders
from adaptlab_worker.trainer.trainer_groups import trainer_groups
from adaptlab_worker.trainer.trainer_process import TrainerOptions, TrainerProcess

ROOT_USER = 0
SLOTS = TRAINER_USERS[-3:-1]
"""The users of two slots."""
RUNNER = "tests.security.neighbour_attacks:attack"
REFUSED = {"PermissionError"}
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="of Linux's defences"),
    pytest.mark.skipif(os.geteuid() != 0, reason="of a worker that is root"),
]
needs_file_rules = pytest.mark.skipif(landlock.version() == 0, reason="this kernel lacks Landlock")


@contextmanager
def sleeping(user: int) -> Generator[int]:
    """Start a process of that user, and yield its id."""
    command = ["sleep", "300"]
    with subprocess.Popen(command, user=user, group=user, extra_groups=[]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def user_of(process: int) -> int:
    """The owner of its files in /proc is root, as it is closed to others."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))


def attempts_as(user: int, victim: int) -> Outcomes:
    """What a process of that user, without other defences, can do."""
    command = [sys.executable, "-m", "tests.security.neighbour_attacks", str(user), str(victim)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("owner", [ROOT_USER, SLOTS[1]], ids=["worker", "other slot"])
def test_users_alone_keep_a_run_from_its_worker_and_other_slots(owner: int) -> None:
    with sleeping(owner) as victim:
        outcomes = attempts_as(SLOTS[0], victim)
    assert len(outcomes) == len(ATTEMPTS)
    assert set(outcomes.values()) == REFUSED


def test_a_run_of_the_same_user_could_end_and_slow_down_its_neighbour() -> None:
    """The test above can fail: as where both are one user, without the filter."""
    with sleeping(SLOTS[0]) as victim:
        outcomes = attempts_as(SLOTS[0], victim)
    done = {name.rpartition(" ")[0] for name, outcome in outcomes.items() if outcome == "done"}
    assert done >= {"signal", "limit", "slow down", "pin"}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that trainers of all users can pass, for reports."""
    folder = Path(tempfile.mkdtemp(prefix="adaptlab-neighbours-"))
    folder.chmod(0o755)
    control = folder / "control"
    control.mkdir()
    control.chmod(0o777)
    monkeypatch.setenv("RUNNER_CONTROL", str(control))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield folder
    shutil.rmtree(folder)


def options_of(folder: Path, user: str, group: Path) -> TrainerOptions:
    settings = Settings(
        database_url="postgresql://unused@localhost/unused",
        broker_url="redis://localhost",
        data_dir=folder / "data",
        trainer_user=user,
        trainer_environment=("RUNNER_CONTROL",),
        trainer_writes=(folder / "control",),
    )
    options = slot_options(settings, 2, RUNNER).trainer
    return replace(options, groups=trainer_groups(os.getpid(), group))


@contextmanager
def a_trainer(folder: Path, options: TrainerOptions, slot: int) -> Generator[TrainerProcess]:
    """Start the trainer of a slot, as the launcher does."""
    options = replace(options, user=user_of_slot(options.user, slot))
    trainer = TrainerProcess(
        options, SlotFolders(folder / "data" / "worker" / "scratch" / str(slot))
    )
    try:
        assert trainer.await_ready(lambda: False)
        yield trainer
    finally:
        trainer.close()


def attack(
    folder: Path, trainer: TrainerProcess, processes: Sequence[int], groups: Sequence[Path]
) -> Outcomes:
    """Run the attack in a trainer; return what came of it."""
    control = folder / "control"
    targets = {"processes": processes, "groups": [str(group) for group in groups]}
    (control / "targets").write_text(json.dumps(targets))
    with trainer._folders.attempt("job-1") as given:  # pyright: ignore[reportPrivateUsage]
        run = trainer.make_run_folder(given)
        trainer.send(RunRequest(run="1", resolved=a_resolved_spec(), scratch=run))
        message: Message | None = None
        while not isinstance(message, Ended):
            message = trainer.receive(60)
            assert message is not None, "nothing came for a minute"
    assert message.outcome == "finished", message.error
    return json.loads((control / "report").read_text())


@needs_file_rules
@pytest.mark.parametrize("user", ["auto", "same"])
def test_a_run_reaches_neither_its_worker_nor_another_slot_nor_another_group(
    folder: Path, group: Path, user: str
) -> None:
    options = options_of(folder, user, group)
    with a_trainer(folder, options, 0) as trainer, a_trainer(folder, options, 1) as other:
        owners = {user_of(process) for process in (trainer.pid, other.pid)}
        outcomes = attack(folder, trainer, [os.getpid(), other.pid], [group, group.parent])
    assert len(outcomes) == 2 * len(ATTEMPTS) + 2
    assert set(outcomes.values()) == REFUSED
    assert (user == "auto") == (len(owners) == 2)


@pytest.fixture
def without_file_rules(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    limits = slot_settings.TrainerLimits

    def unlimited(**given: Any) -> confinement.TrainerLimits:
        return limits(**given).model_copy(update={"files": None})

    monkeypatch.setattr(slot_settings, "TrainerLimits", unlimited)
    return monkeypatch


@pytest.mark.parametrize(("user", "outcome"), [(SLOTS[0], "PermissionError"), (None, "done")])
def test_only_the_owner_of_a_group_moves_processes_without_rules_for_files(
    folder: Path,
    group: Path,
    without_file_rules: pytest.MonkeyPatch,
    user: int | None,
    outcome: str,
) -> None:
    """Users are a defence too; root without rules leaves its group."""
    runs_as = user and TrainerUser(f"user {user}", user, user, "/nonexistent", passes=True)
    without_file_rules.setattr(trainer_user, "trainer_user", lambda *_: runs_as)
    options = options_of(folder, "auto", group)
    with a_trainer(folder, options, 0) as trainer:
        outcomes = attack(folder, trainer, [], [group])
    assert outcomes == {f"enter {group}": outcome}
