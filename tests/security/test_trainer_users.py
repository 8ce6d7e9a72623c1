"""Users of trainers: another one than the worker's, and one for each slot."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.watching import until
from tests.worker.conftest import Processes

from adaptlab_worker.confinement.own_users import TRAINER_USERS
from adaptlab_worker.confinement.trainer_user import TrainerUser, user_of_slot

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
MODULE = b"adaptlab_worker.trainer.trainer\0"


def test_each_slot_has_an_id_of_its_own() -> None:
    first = TrainerUser("first", TRAINER_USERS[-2], TRAINER_USERS[-2], "/nonexistent")
    users = [user_of_slot(first, slot) for slot in range(8)]
    ids = [user.user for user in users if user is not None]
    assert len(set(ids)) == 8
    assert set(ids) <= set(TRAINER_USERS)
    assert [user_of_slot(first, slot) for slot in range(8)] == users, "always the same"


@pytest.mark.parametrize("user", [None, TrainerUser("ada", 1000, 1000, "/home/ada")])
def test_a_chosen_user_is_that_of_all_slots(user: TrainerUser | None) -> None:
    assert user_of_slot(user, 3) == user


def users_of_trainers(worker: int) -> set[int]:
    """The users of the processes that a worker has started as trainers."""
    return {
        owner
        for folder in Path("/proc").glob("[0-9]*")
        if MODULE in _arguments(folder) and worker in _ancestors(folder)
        if (owner := _status(folder, "Uid")) is not None
    }


def _arguments(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def _status(folder: Path, name: str) -> int | None:
    try:
        lines = (folder / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)


def _ancestors(folder: Path) -> Iterator[int]:
    while parent := _status(folder, "PPid"):
        yield parent
        folder = Path(f"/proc/{parent}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("slots", [(2,), (1, 1)], ids=["of a worker", "of two workers"])
def test_trainers_of_two_slots_are_two_users(processes: Processes, slots: tuple[int, ...]) -> None:
    """Also of two workers of a data folder, as in `up --workers 2`."""
    runner = ("--runner", "tests.security.confined_runs:look_about")
    environment = {"ADAPTLAB_TRAINER_USER": "auto"}
    workers = [
        processes.start("worker", "--slots", str(count), *runner, environment=environment)
        for count in slots
    ]

    def are_two() -> bool:
        users = [user for worker in workers for user in users_of_trainers(worker.pid)]
        return len(users) == len(set(users)) == 2 and set(users) <= set(TRAINER_USERS)

    until(are_two, "two trainers of two users")
