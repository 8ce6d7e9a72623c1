"""The server's end of the process that reads from a hub and writes to it."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from adaptlab.values import Value
from adaptlab_answers.hub import HubAccount, RepositoryKind
from adaptlab_services.hub.hub_access import (
    Frame,
    HubAccess,
    HubRepository,
    Pushed,
    PushFolder,
    ReadAccount,
    ReadFile,
    ReadInfo,
)

LOOK_SECONDS = 0.25
START_SECONDS = 120.0
LONGEST_LINE = 4096
READ_BYTES = 2**16
MOST_INFO_BYTES = 2**22
TAKEN = (
    *("PATH", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
"""Variables that the process inherits: none with a secret of the server."""
OWN = {
    "HF_HUB_DISABLE_XET": "1",  # it would bypass the check of hosts
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HOME": os.devnull,
    "OPENBLAS_NUM_THREADS": "1",
}


class HubFailure(Exception):
    """A request to a hub that brought nothing; see `fetch_errors`."""

    def __init__(self, code: str, detail: str = "", seconds: float | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class HubPatience:
    """How long the server waits for a hub.

    Attributes:
        silent_seconds: longest time without a byte.
        window_seconds: time over which the rate is measured.
        least_rate: bytes per second that a file must bring.
    """

    silent_seconds: float = 60.0
    window_seconds: float = 30.0
    least_rate: float = 1024.0


class HubChild:
    """A process that talks to a hub; it ends with the context.

    `tick` is called a few times a second while the hub is waited for, and ends the request by an
    error of its own.
    """

    def __init__(
        self,
        access: HubAccess,
        tick: Callable[[], None] = lambda: None,
        patience: HubPatience | None = None,
    ) -> None:
        self._access = access
        self._tick = tick
        self._patience = patience or HubPatience()
        self._buffer = bytearray()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        inherited = {name: os.environ[name] for name in TAKEN if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "adaptlab_services.hub.hub_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=inherited | OWN,
        )
        try:
            self._send(self._access)
            self._frame(time.monotonic() + START_SECONDS)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        process = self._started
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        process.wait()

    @property
    def pid(self) -> int:
        """The process."""
        return self._started.pid

    def info(self, repository: str, revision: str, kind: RepositoryKind = "model") -> HubRepository:
        """Return what a repository has; raises `HubFailure`."""
        request = ReadInfo(kind=kind, repository=repository, revision=revision)
        return HubRepository.model_validate_json(self._whole(request))

    def account(self) -> HubAccount:
        """Return the account of the token; raises `HubFailure`."""
        return HubAccount.model_validate_json(self._whole(ReadAccount()))

    def _whole(self, request: Value) -> bytes:
        """Return an answer of one frame."""
        self._send(request)
        frame, content = self._frame(time.monotonic() + self._patience.silent_seconds)
        if not frame.is_last:
            raise HubFailure("not_a_hub")
        return content

    def read(self, wanted: ReadFile) -> Iterator[bytes]:
        """Yield the bytes of a file as they come; raises `HubFailure`."""
        self._send(wanted)
        waited, received = 0.0, 0
        while True:
            begun = time.monotonic()
            frame, content = self._frame(begun + self._patience.silent_seconds)
            waited += time.monotonic() - begun
            received += len(content)
            if waited >= self._patience.window_seconds:
                if received < self._patience.least_rate * waited:
                    raise HubFailure("too_slow")
                waited, received = 0.0, 0
            if frame.is_last:
                return
            yield content

    def push(self, wanted: PushFolder) -> Pushed:
        """Write a folder to a repository; raises `HubFailure`.

        The process sends empty frames while it works.
        """
        self._send(wanted)
        while True:
            until = time.monotonic() + self._patience.silent_seconds
            frame, content = self._frame(until)
            if frame.is_last:
                return Pushed.model_validate_json(content)

    @property
    def _started(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None  # within the context
        return self._process

    def _send(self, message: Value) -> None:
        pipe = self._started.stdin
        assert pipe is not None
        try:
            pipe.write(message.model_dump_json().encode() + b"\n")
            pipe.flush()
        except OSError as error:
            raise HubFailure("ended") from error

    def _frame(self, until: float) -> tuple[Frame, bytes]:
        """Return the next frame; raises `HubFailure` for one that is a problem."""
        while b"\n" not in self._buffer:
            if len(self._buffer) > LONGEST_LINE:
                raise HubFailure("ended")
            self._receive(until)
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        frame = Frame.model_validate_json(bytes(line))
        if frame.code is not None:
            raise HubFailure(frame.code, frame.detail, frame.seconds)
        if frame.size > MOST_INFO_BYTES:
            raise HubFailure("too_large")
        while len(self._buffer) < frame.size:
            self._receive(until)
        content = bytes(self._buffer[: frame.size])
        del self._buffer[: frame.size]
        return frame, content

    def _receive(self, until: float) -> None:
        """Add the next bytes to the buffer."""
        pipe = self._started.stdout
        assert pipe is not None
        self._tick()
        while not select.select([pipe], [], [], LOOK_SECONDS)[0]:
            self._tick()
            if time.monotonic() > until:
                raise HubFailure("silent")
        content = os.read(pipe.fileno(), READ_BYTES)
        if not content:
            raise HubFailure("ended")
        self._buffer += content
