"""The output of a trainer, which the worker writes to its log.

With the log itself as its standard output, a run could truncate and fill it, or write lines that
look like the worker's.
"""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import cast

from adaptlab_services.log_formats import FORMAT_VARIABLE, LONGEST_MESSAGE

READ_BYTES = 2**16
BURST_BYTES = 4 * 2**20
BYTES_PER_SECOND = 2**15
"""What a trainer may write to the log in the long run; 113 MiB an hour."""
NAME = "trainer"
_OWN = re.compile(rf"\d{{4}}-\d\d-\d\d [\d:,]+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) {NAME}: ")
_MEMBERS = ("time", "level", "message", "job_id", "attempt", "exception")


class TrainerOutput:
    """A thread that writes a trainer's output to the worker's log.

    Lines in the trainer's own form stay as they are; others begin with `trainer:`. Control
    characters are escaped, long lines cut, and a trainer that writes too much is cut off for a
    while.

    Args:
        write: takes a line; by default it is written to stderr, as the worker's log is.
        clock: seconds.
    """

    def __init__(
        self,
        write: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        readable, self._writable = os.pipe()
        self._readable = readable
        self._write = write or _to_log
        self._allowance = _Allowance(clock)
        self._process_id = 0
        self._is_json = os.environ.get(FORMAT_VARIABLE) == "json"
        self._thread = threading.Thread(target=self._relay, name="trainer output", daemon=True)

    @property
    def writable(self) -> int:
        """The descriptor for the trainer's stdout and stderr."""
        return self._writable

    def start(self, process_id: int) -> None:
        """Start to read, when the trainer has the other end."""
        self._process_id = process_id
        os.close(self._writable)
        self._thread.start()

    def close(self) -> None:
        """Wait at most a second for the rest; the trainer has to be gone."""
        self._thread.join(timeout=1)

    def _relay(self) -> None:
        with os.fdopen(self._readable, "rb", buffering=0) as pipe:
            for line in _lines(lambda: pipe.read(READ_BYTES)):
                left_out = self._allowance.left_out(len(line))
                if left_out is None:
                    continue
                if left_out:
                    self._write(self._in_form(f"{left_out:,} bytes of output were left out"))
                self._write(self._in_form(line.decode(errors="replace")))

    def _in_form(self, line: str) -> str:
        shown = line if len(line) <= LONGEST_MESSAGE else f"{line[:LONGEST_MESSAGE]}…"
        if self._is_json:
            return _as_json(line, shown, self._process_id)
        plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode()
                        for c in shown.replace("\t", "    "))  # fmt: skip
        return plain if _OWN.match(plain) else f"{NAME}: {plain}"


class _Allowance:
    """How much may be written: a burst, and a rate in the long run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left, self._at = float(BURST_BYTES), clock()
        self._dropped = 0

    def left_out(self, size: int) -> int | None:
        """Return the bytes left out before this line; None to leave it out."""
        now = self._clock()
        self._left = min(BURST_BYTES, self._left + BYTES_PER_SECOND * (now - self._at))
        self._at = now
        # Once exceeded, it begins again only when a good part of the burst is there.
        if size > self._left or (self._dropped and self._left < BURST_BYTES / 4):
            self._dropped += size
            return None
        self._left -= size
        dropped, self._dropped = self._dropped, 0
        return dropped


def _lines(read: Callable[[], bytes]) -> Iterator[bytes]:
    """Yield lines, those longer than a read in pieces."""
    rest = b""
    while piece := read():
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > READ_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


def _as_json(line: str, shown: str, process_id: int) -> str:
    """Return a line of the log; what names another source is replaced."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    written: dict[str, object] = {"time": moment, "level": "info", "logger": NAME, "message": shown}
    try:
        given: object = json.loads(line)
    except ValueError:
        given = None
    if isinstance(given, dict):
        members = cast("dict[str, object]", given)
        if isinstance(members.get("message"), str):
            written |= {name: members[name] for name in _MEMBERS if name in members}
    return json.dumps(written | {"process": process_id})


def _to_log(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
