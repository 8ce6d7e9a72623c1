"""As whom trainers run where the worker is root: somebody who may nothing, if that is possible."""

import importlib.util
import logging
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adaptlab_worker.errors import TrainerUserBarred

AUTO = "auto"
SAME = "same"
NOBODY = "nobody"
PROBE_SECONDS = 60
LOOK = """
import os, sys
import adaptlab.spec, adaptlab_worker.protocol
for path in sys.argv[1:]:
    if not os.access(path, os.X_OK if os.path.isdir(path) else os.R_OK):
        sys.exit(path)
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainerUser:
    """An account: its numbers and its home."""

    name: str
    user: int
    group: int
    home: str


def trainer_user(wanted: str, needed: Sequence[Path]) -> TrainerUser | None:
    """As whom trainers run; None is as the worker.

    Args:
        wanted: the name of a user; `same` for the worker's own; `auto` for `nobody` where the
            worker is root and `nobody` can reach what a trainer needs, else for the worker's own.
        needed: the folders and files that a trainer has to reach besides Python and its packages.

    Raises:
        TrainerUserBarred: the user that was named does not exist, cannot reach what is needed, or
            the worker is not root and so cannot become another.
    """
    if wanted == SAME or (wanted == AUTO and os.geteuid() != 0):
        return None
    try:
        return _able(NOBODY if wanted == AUTO else wanted, needed)
    except TrainerUserBarred as barred:
        if wanted != AUTO:
            raise
        log.warning(
            "trainers run as root, though without its privileges: %s Set ADAPTLAB_TRAINER_USER to "
            "a user that can, or to same if this is meant to be so.",
            barred,
        )
        return None


def _able(name: str, needed: Sequence[Path]) -> TrainerUser:
    """The user of that name, who has been seen to be able to run a trainer."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise TrainerUserBarred(f"There is no user {name!r} on this machine.") from None
    found = TrainerUser(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)
    if found.user == os.geteuid():
        return found
    if os.geteuid() != 0:
        raise TrainerUserBarred(f"The worker is not root and cannot become {name!r}.")
    if (fault := _fault(found, [*_packages(), *needed])) is not None:
        raise TrainerUserBarred(f"{name!r} cannot run trainers here: {fault}.")
    return found


def _fault(user: TrainerUser, needed: Sequence[Path]) -> str | None:
    """What stops the user, tried and not computed from mode bits: access lists count too."""
    try:
        tried = subprocess.run(
            [sys.executable, "-c", LOOK, *map(str, needed)],
            user=user.user,
            group=user.group,
            extra_groups=[],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROBE_SECONDS,
        )
    except PermissionError:
        return f"it may not execute {sys.executable}"
    except subprocess.TimeoutExpired:
        return f"Python did not start within {PROBE_SECONDS} s"
    if tried.returncode == 0:
        return None
    last = (tried.stderr.strip().splitlines() or ["Python does not start"])[-1]
    return f"it cannot reach {last}" if last.startswith("/") else last


def _packages() -> list[Path]:
    """Where torch lies, without loading it; nothing where there is none."""
    found = importlib.util.find_spec("torch")
    return [Path(found.origin)] if found is not None and found.origin is not None else []
