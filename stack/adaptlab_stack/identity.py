"""The user of a child process: Postgres refuses to run as root."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adaptlab_stack.errors import DirectoryBarred, UserUnknown
from adaptlab_worker.confinement.own_users import POSTGRES_USERS, own_user

NOBODY = 65534
# Tried in this order; a container's root often lacks the first and has the second.
PASSING_CAPABILITIES = ("dac_read_search", "dac_override")


@dataclass(frozen=True, slots=True)
class Identity:
    """The user and group of a child, and its only capability, if any.

    The capability lets it traverse closed directories.
    """

    user: int
    group: int
    capability: str | None = None

    def wrap(self, argv: Sequence[str], parent_death_signal: signal.Signals) -> tuple[str, ...]:
        """Return a command that changes the user if needed, then becomes `argv`.

        A change of user clears the signal that ties a child to its parent. `setpriv` sets it
        afterwards, and the shell checks that the parent has not died before.
        """
        if self.capability is None:
            return tuple(argv)
        guard = 'parent=$1; shift; [ "$PPID" = "$parent" ] && exec "$@"'
        return (
            *_setpriv(self),
            f"--pdeathsig={parent_death_signal.name}",
            *("/bin/sh", "-c", guard, "sh", str(os.getpid())),
            *argv,
        )


def initialising(identity: Identity) -> Identity:
    """Return the identity for `initdb`, which refuses users without an entry.

    `nobody` replaces such a user. The cluster is given to its own user before a server runs.

    Raises:
        UserUnknown: `nobody` has no entry either.
    """
    try:
        pwd.getpwuid(identity.user)
    except KeyError:
        _require_entry(NOBODY)
        return replace(identity, user=NOBODY, group=NOBODY)
    return identity


def identity_of(owner: Path, needed: Sequence[Path]) -> Identity | None:
    """Return the identity of Postgres; None is the calling user.

    Args:
        owner: the cluster directory. If it exists, its owner runs the server. The exception is
            `nobody`, as in data directories of earlier versions: a user of its own replaces it.
        needed: directories and programs that the server has to reach.

    Raises:
        UserUnknown: `initdb` would refuse a user that the machine has no entry for.
        DirectoryBarred: the caller is root, and the other user cannot reach what is needed.
    """
    if os.geteuid() != 0:
        _require_entry(os.geteuid())
        return None
    plain = _owner_of(owner)
    barred = first_barred(plain, needed)
    if barred is None:
        return plain
    for capability in PASSING_CAPABILITIES:
        passing = Identity(plain.user, plain.group, capability)
        if first_barred(passing, needed) is None:
            return passing
    raise DirectoryBarred(barred, plain.user)


def first_barred(identity: Identity, needed: Iterable[Path]) -> Path | None:
    """Return the first directory or program that the user cannot enter or run.

    Tested as that user instead of from mode bits, because access lists and mounts count too.
    """
    for path in needed:
        for step in (*reversed(path.absolute().parents), path.absolute()):
            if not _may_pass(identity, step):
                return step
    return None


def _may_pass(identity: Identity, path: Path) -> bool:
    probe = ["/bin/sh", "-c", 'test -x "$1"', "sh", str(path)]
    if identity.capability is None:
        done = subprocess.run(
            probe, check=False, cwd="/", user=identity.user, group=identity.group, extra_groups=[]
        )
        return done.returncode == 0
    if shutil.which("setpriv") is None:
        return False
    done = subprocess.run([*_setpriv(identity), *probe], check=False, cwd="/", capture_output=True)
    return done.returncode == 0


def _setpriv(identity: Identity) -> tuple[str, ...]:
    return (
        "setpriv",
        f"--reuid={identity.user}",
        f"--regid={identity.group}",
        "--clear-groups",
        f"--inh-caps=+{identity.capability}",
        f"--ambient-caps=+{identity.capability}",
        # Without this, the kernel ignores the capability in access(2). Postgres 16 and newer use
        # that call to find their own program, and would refuse to start.
        "--securebits=+no_setuid_fixup",
    )


def _require_entry(user: int) -> None:
    try:
        pwd.getpwuid(user)
    except KeyError:
        raise UserUnknown(user) from None


def _owner_of(cluster: Path) -> Identity:
    if cluster.exists() and cluster.stat().st_uid not in (0, NOBODY):
        return Identity(cluster.stat().st_uid, cluster.stat().st_gid)
    number = own_user(POSTGRES_USERS, cluster)
    return Identity(NOBODY, NOBODY) if number is None else Identity(number, number)
