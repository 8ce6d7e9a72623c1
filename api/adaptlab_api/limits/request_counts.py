"""Counts and durations of requests, shared by a server's processes.

Every process of a server may get the next scrape, so each must know what the others have counted.
prometheus-client can share its values too, but by a variable of the environment that it reads when
it is imported, and with a file per process that ever ran. Here a process locks a free file and goes
on with the counts of the process that had it before, so sums never decrease and files are not more
than the processes that ran at once.
"""

import fcntl
import hashlib
import json
import logging
import mmap
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds between the buckets of durations."""
ELSEWHERE = ("other", "none")
"""Method and route of requests that reached no route."""
STATUSES = (
    *(
        100,
        200,
        201,
        202,
        204,
        206,
        303,
        304,
        400,
        401,
        403,
        404,
        405,
        408,
        409,
        410,
        413,
        415,
        416,
    ),
    *(422, 429, 431, 500, 503),
)
"""The server's statuses, each with a count; others would count for the largest below them."""
MOST_PROCESSES = 64

_DIGEST_BYTES = 32
_BUCKETS = len(BOUNDS) + 1
_WIDTH = _BUCKETS + 1 + len(STATUSES)  # buckets, sum of seconds, statuses

Key = tuple[str, str]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RouteCounts:
    """The requests of one method and route.

    Attributes:
        buckets: requests by duration, not added up; one more than `BOUNDS`.
        seconds: the sum of their durations.
        statuses: requests by status, those without a duration included.
    """

    method: str
    route: str
    buckets: tuple[int, ...]
    seconds: float
    statuses: tuple[tuple[int, int], ...]


class RequestCounts:
    """The counts of this process, in a file that the others can read.

    One thread adds to them.

    Args:
        folder: where the processes of a server have their files; it is created. If it cannot be
            written to, this process counts for itself.
        keys: all methods and routes.
    """

    def __init__(self, folder: Path, keys: Sequence[Key]) -> None:
        self._keys = (*sorted(set(keys)), ELSEWHERE)
        self._places = {key: place for place, key in enumerate(self._keys)}
        layout = json.dumps([BOUNDS, STATUSES, self._keys]).encode()
        self._digest = hashlib.sha256(layout).digest()
        self._size = _DIGEST_BYTES + 8 * _WIDTH * len(self._keys)
        self._folder = folder
        self._descriptor, self._map = self._opened()
        self._values = memoryview(self._map)[_DIGEST_BYTES:].cast("d")

    def add(self, key: Key, status: int, seconds: float | None) -> None:
        """Count a request; `seconds` None if its duration means nothing."""
        start = _WIDTH * self._places.get(key, len(self._keys) - 1)
        if seconds is not None:
            self._values[start + bisect_left(BOUNDS, seconds)] += 1
            self._values[start + _BUCKETS] += seconds
        self._values[start + _BUCKETS + 1 + _place_of(status)] += 1

    def counts(self) -> Iterator[RouteCounts]:
        """Yield the sums of all processes, for routes that had a request."""
        sums = [0.0] * (_WIDTH * len(self._keys))
        for values in self._all():
            sums = [a + b for a, b in zip(sums, values, strict=True)]
        for place, (method, route) in enumerate(self._keys):
            own = sums[_WIDTH * place : _WIDTH * (place + 1)]
            if any(own):
                statuses = zip(STATUSES, map(int, own[_BUCKETS + 1 :]), strict=True)
                yield RouteCounts(
                    method=method,
                    route=route,
                    buckets=tuple(map(int, own[:_BUCKETS])),
                    seconds=own[_BUCKETS],
                    statuses=tuple(pair for pair in statuses if pair[1]),
                )

    def close(self) -> None:
        """Leave the file to the next process."""
        self._values.release()
        self._map.close()
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _opened(self) -> tuple[int | None, mmap.mmap]:
        """Return the first file that no other process has, and its memory."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for number in range(MOST_PROCESSES):
                descriptor = os.open(self._folder / f"{number}", os.O_RDWR | os.O_CREAT, 0o600)
                mapped = self._mapped(descriptor)
                if mapped is not None:
                    return descriptor, mapped
        except OSError as error:
            log.warning("requests are counted in this process alone: %s", error)
        return None, mmap.mmap(-1, self._size)

    def _mapped(self, descriptor: int) -> mmap.mmap | None:
        """Return the memory of a file; None if another process has it.

        It is emptied if other routes were counted in it.
        """
        with ExitStack() as unused:
            unused.callback(os.close, descriptor)
            if not _is_locked(descriptor):
                return None
            if os.pread(descriptor, _DIGEST_BYTES, 0) != self._digest:
                os.ftruncate(descriptor, 0)
            os.ftruncate(descriptor, self._size)
            # On a full disk, this fails now; a write to memory without a block would be fatal.
            os.posix_fallocate(descriptor, 0, self._size)
            mapped = mmap.mmap(descriptor, self._size)
            mapped[:_DIGEST_BYTES] = self._digest
            unused.pop_all()
            return mapped

    def _all(self) -> Iterator[Sequence[float]]:
        yield self._values
        if self._descriptor is None:
            return
        own = os.fstat(self._descriptor)
        for number in range(MOST_PROCESSES):
            try:
                with (self._folder / f"{number}").open("rb") as file:
                    found = os.fstat(file.fileno())
                    content = b"" if os.path.samestat(found, own) else file.read(self._size + 1)
            except OSError:
                return  # files are numbered without gaps
            if len(content) == self._size and content[:_DIGEST_BYTES] == self._digest:
                yield memoryview(content)[_DIGEST_BYTES:].cast("d")


def _is_locked(descriptor: int) -> bool:
    """Lock a file until this process ends; return False if another has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _place_of(status: int) -> int:
    return max(place for place, least in enumerate(STATUSES) if least <= max(status, 100))
