"""Uploads of large files in chunks, verified and resumable."""

import base64
import hashlib
import io
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import JsonValue

from adaptlab_answers.paging import Page
from adaptlab_answers.storage import UploadView
from adaptlab_client.errors import ApiError, DigestMismatch, InvalidRequest
from adaptlab_client.transport.connection import Connection, Identity, Request, path_of

COMPLETE_SECONDS = 300.0
"""Time limit for completion, in which the server reads all bytes again."""
CHUNK_BYTES = 8 * 2**20
"""The expected chunk size; with another one, the chunks must be hashed again."""
AT_ONCE = 4
"""Number of chunks sent in parallel."""

Report = Callable[[int, int], None]


class Uploads:
    """Your uploads that are in progress, or complete and not used yet."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Iterator[UploadView]:
        """Iterate over your uploads, oldest first."""
        yield from self._connection.ask(Request("GET", path_of("uploads")), Page[UploadView]).data

    def get(self, upload: Identity) -> UploadView:
        """Return an upload; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("uploads", upload)), UploadView)

    def delete(self, upload: Identity) -> None:
        """Delete an upload; things created from it remain."""
        self._connection.send(Request("DELETE", path_of("uploads", upload)))

    def send(self, path: str | Path, *, report: Report | None = None) -> UploadView:
        """Upload a file, and return once the server has verified it.

        After an interruption, a second call sends only the missing chunks. `report` is called with
        the number of bytes received and the size. Raises `TooLarge`, and `DigestMismatch` if the
        file changed during the upload, which is then deleted.
        """
        with Path(path).open("rb") as file:
            return self._send(file, report)

    def send_bytes(self, content: bytes) -> UploadView:
        """Upload bytes as `send` does a file."""
        return self._send(io.BytesIO(content), None)

    def _send(self, file: IO[bytes], report: Report | None) -> UploadView:
        measured = _measured(file)
        body: dict[str, JsonValue] = {"size_bytes": measured.size, "sha256": measured.sha256}
        request = Request("POST", path_of("uploads"), body=body)
        upload = self._connection.ask(request, UploadView)
        try:
            self._send_missing(_chunks(file, upload, measured), upload, report)
            return self._complete(upload)
        except InvalidRequest as error:
            if "wrong_digest" not in error.codes:
                raise
            with suppress(ApiError):
                self.delete(upload.id)
            raise DigestMismatch(
                f"The file changed during the upload, which was deleted. Upload it again. {error}"
            ) from error

    def _send_missing(
        self, chunks: Iterator["_Chunk"], upload: UploadView, report: Report | None
    ) -> None:
        if upload.state == "complete":
            return
        received = {chunk.number: chunk.sha256 for chunk in upload.received}
        arrived = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            sending = deque[Future[int]]()
            for chunk in chunks:
                has_arrived = received.get(chunk.number) == chunk.digest.hex()
                sending.append(pool.submit(self._put, upload, chunk, has_arrived=has_arrived))
                # Only the chunks being sent are kept in memory.
                while sending and (len(sending) >= AT_ONCE or chunk.number == upload.chunks - 1):
                    arrived += sending.popleft().result()
                    if report:
                        report(arrived, upload.size_bytes)

    def _put(self, upload: UploadView, chunk: "_Chunk", *, has_arrived: bool) -> int:
        """Send a chunk unless it has arrived, and return its size."""
        if not has_arrived:
            digest = base64.b64encode(chunk.digest).decode()
            headers = {
                "Content-Type": "application/octet-stream",
                "Content-Digest": f"sha-256=:{digest}:",
            }
            path = path_of("uploads", upload.id, "chunks", chunk.number)
            self._connection.send(Request("PUT", path, content=chunk.content, headers=headers))
        return len(chunk.content)

    def _complete(self, upload: UploadView) -> UploadView:
        path = path_of("uploads", upload.id, "complete")
        request = Request("POST", path, seconds=COMPLETE_SECONDS)
        return self._connection.ask(request, UploadView)


@dataclass(frozen=True, slots=True)
class _Chunk:
    number: int
    content: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class _Measured:
    """Size and SHA-256 of the content, and the SHA-256 of each chunk."""

    size: int
    sha256: str
    chunks: tuple[bytes, ...]


def _chunks(file: IO[bytes], upload: UploadView, measured: _Measured) -> Iterator[_Chunk]:
    """Yield the chunks; if the file has changed, the server rejects them."""
    file.seek(0)
    is_as_expected = upload.chunk_bytes == CHUNK_BYTES
    for number in range(upload.chunks):
        content = file.read(upload.chunk_bytes)
        yield _Chunk(
            number, content, measured.chunks[number] if is_as_expected else _digest(content)
        )


def _measured(file: IO[bytes]) -> _Measured:
    whole, size, chunks = hashlib.sha256(), 0, list[bytes]()
    # Each chunk is hashed in parallel with the whole: nothing is being sent yet.
    with ThreadPoolExecutor(1) as pool:
        while content := file.read(CHUNK_BYTES):
            chunk = pool.submit(_digest, content)
            whole.update(content)
            size += len(content)
            chunks.append(chunk.result())
    return _Measured(size, whole.hexdigest(), tuple(chunks))


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
