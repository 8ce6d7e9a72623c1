"""Dedicated user ids for Postgres and trainers if a worker runs as root.

`nobody` was one user for both: a trainer could read the database's files and change how the server
lets users in. The ids below belong to no package and to no service manager (systemd leaves 60578 to
61183 free, Debian hands out 60000 to 64999 by hand). No entry in the password database is needed.
"""

import hashlib
import pwd
from collections.abc import Iterator
from pathlib import Path

POSTGRES_USERS = range(60578, 60878)
TRAINER_USERS = range(60878, 61178)
USER_MAP = Path("/proc/self/uid_map")


def own_user(numbers: range, path: Path) -> int | None:
    """Return the user id for the owner of `path`, always the same.

    Ids of existing accounts are skipped. None if this user namespace has none of the ids, as in
    some containers.
    """
    first = int.from_bytes(hashlib.sha256(str(path).encode()).digest()[:8])
    return next(_usable(numbers, first), None)


def following_user(numbers: range, number: int, steps: int) -> int:
    """Return the user id so many usable ones after `number`.

    They begin again after the last one.
    """
    usable = list(_usable(numbers, numbers.index(number)))
    return usable[steps % len(usable)]


def _usable(numbers: range, first: int) -> Iterator[int]:
    for offset in range(len(numbers)):
        number = numbers[(first + offset) % len(numbers)]
        if _is_mapped(number) and not _has_account(number):
            yield number


def _has_account(number: int) -> bool:
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True


def _is_mapped(number: int) -> bool:
    """Return True if processes in this user namespace can have that id."""
    try:
        rows = [line.split() for line in USER_MAP.read_text().splitlines()]
    except OSError:  # no user namespaces: every id exists
        return True
    return any(int(first) <= number < int(first) + int(count) for first, _, count in rows)
