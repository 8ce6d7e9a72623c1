"""The user of trainers if the worker is root: one without anything else."""

import importlib.util
import logging
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adaptlab_worker.confinement.confinement import RunsAs, TrainerLimits
from adaptlab_worker.confinement.own_users import TRAINER_USERS, following_user, own_user
from adaptlab_worker.errors import TrainerUserBarred

AUTO = "auto"
SAME = "same"
NO_HOME = "/nonexistent"
PROBE_SECONDS = 60

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainerUser:
    """A user, and whether it needs a capability to pass closed folders."""

    name: str
    user: int
    group: int
    home: str
    passes: bool = False


def trainer_user(
    wanted: str, needed: Sequence[Path], scratch: Path, limits: TrainerLimits
) -> TrainerUser | None:
    """Return the user of trainers; None for the worker's own.

    Args:
        wanted: the name of a user; `same` for the worker's own; `auto` for a dedicated user id if
            the worker is root, else for the worker's own.
        needed: the folders and files that a trainer has to read besides Python and its packages.
        scratch: the worker's folder, which determines the id of `auto`.
        limits: the limits of trainers. With rules for files the user may pass closed folders.

    Raises:
        TrainerUserBarred: the user does not exist, cannot reach what is needed, would be root
            without rules for files, or the worker is not root and so cannot become another.
    """
    if wanted == SAME or (wanted == AUTO and os.geteuid() != 0):
        _check_files_are_closed(limits)
        return None
    user = _own(scratch) if wanted == AUTO else _named(wanted)
    if user.user == os.geteuid():
        _check_files_are_closed(limits)
        return user
    return _able(user, (scratch, *_packages(), *needed), limits)


def user_of_slot(user: TrainerUser | None, slot: int) -> TrainerUser | None:
    """Return the user of one slot's trainers, by the slot's number.

    Those with a dedicated id have one for each slot: processes of one user can send one another
    signals (before Linux 6.12) and share what the kernel counts by user.
    """
    if user is None or user.user not in TRAINER_USERS:
        return user
    number = following_user(TRAINER_USERS, user.user, slot)
    return replace(user, name=f"user {number}", user=number, group=number)


def user_and_roots(
    wanted: str, roots: Mapping[str, Path], scratch: Path, limits: TrainerLimits
) -> tuple[TrainerUser | None, Mapping[str, Path]]:
    """Return the user of trainers, and the model roots that it can read.

    The arguments are those of `trainer_user`, with the model roots by alias as what is needed.

    Raises:
        TrainerUserBarred: trainers cannot run, whatever the roots.
    """
    present = {alias: path for alias, path in roots.items() if _is_readable(path)}
    try:
        return trainer_user(wanted, tuple(present.values()), scratch, limits), present
    except TrainerUserBarred:
        if not present:
            raise
    trainer_user(wanted, (), scratch, limits)
    able = {
        alias: path for alias, path in present.items() if _is_able(wanted, path, scratch, limits)
    }
    return trainer_user(wanted, tuple(able.values()), scratch, limits), able


def _is_readable(folder: Path) -> bool:
    try:
        next(folder.iterdir(), None)
    except OSError:
        return False
    return True


def _is_able(wanted: str, root: Path, scratch: Path, limits: TrainerLimits) -> bool:
    try:
        trainer_user(wanted, (root,), scratch, limits)
    except TrainerUserBarred:
        return False
    return True


def _check_files_are_closed(limits: TrainerLimits) -> None:
    """Raise `TrainerUserBarred` if trainers had all of root's files.

    The trainers are those of the worker's user.
    """
    if os.geteuid() == 0 and limits.files is None:
        raise TrainerUserBarred(
            "Trainers would run as root and could change every file of this machine, because the "
            "kernel lacks Landlock (Linux 5.13 or newer, enabled). Start the worker as an "
            "ordinary user, or leave ADAPTLAB_TRAINER_USER at auto."
        )


def _own(scratch: Path) -> TrainerUser:
    number = own_user(TRAINER_USERS, scratch)
    if number is None:
        raise TrainerUserBarred(
            f"The worker is root, but none of the user ids {TRAINER_USERS.start} to "
            f"{TRAINER_USERS.stop - 1}, one of which trainers would get, exists in this "
            "container. Start the worker as an ordinary user, or set ADAPTLAB_TRAINER_USER to "
            "a user of the container."
        )
    return TrainerUser(f"user {number}", number, number, NO_HOME)


def _named(name: str) -> TrainerUser:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise TrainerUserBarred(f"There is no user {name!r} on this machine.") from None
    if entry.pw_uid != os.geteuid() != 0:
        raise TrainerUserBarred(f"The worker is not root and cannot become {name!r}.")
    return TrainerUser(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def _able(user: TrainerUser, needed: Sequence[Path], limits: TrainerLimits) -> TrainerUser:
    """Return the user after a test start, with the capability if needed."""
    if (fault := _fault(user, needed, limits)) is None:
        return user
    # Only with rules for files does the capability not open everything.
    passing = replace(user, passes=True)
    if limits.files is not None and (fault := _fault(passing, needed, limits)) is None:
        return passing
    remedy = (
        f"Trainers cannot run as {user.name} here: {fault}. Install Python and adaptlab where "
        "every user can read them, such as below /opt, or start the worker as an ordinary user."
    )
    if limits.files is not None:
        remedy += (
            " ADAPTLAB_TRAINER_USER=same runs trainers as root, without its privileges and with "
            "the files of their rules alone."
        )
    raise TrainerUserBarred(remedy)


def _fault(user: TrainerUser, needed: Sequence[Path], limits: TrainerLimits) -> str | None:
    """Return what keeps the user from running a trainer, by trying.

    Mode bits are not enough, because access lists count too.
    """
    runs_as = RunsAs(user=user.user, group=user.group, passes=user.passes)
    confined = limits.model_copy(update={"runs_as": runs_as})
    command = [
        sys.executable,
        "-m",
        "adaptlab_worker.confinement.confined",
        confined.model_dump_json(),
    ]
    try:
        result = subprocess.run(
            [*command, "adaptlab_worker.trainer.path_test", *map(str, needed)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"Python did not start within {PROBE_SECONDS} s"
    if result.returncode == 0:
        return None
    last = (result.stderr.strip().splitlines() or ["Python does not start"])[-1]
    return f"it cannot reach {last}" if last.startswith("/") else last


def _packages() -> list[Path]:
    """Return the path of torch without loading it; empty if not installed."""
    spec = importlib.util.find_spec("torch")
    return [Path(spec.origin)] if spec is not None and spec.origin is not None else []
