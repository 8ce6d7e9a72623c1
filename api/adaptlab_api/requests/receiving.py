"""Bodies of bytes, received in pieces and compared with their digest."""

import base64
import binascii
import hashlib
import re
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_api.answers.problems import UNSUPPORTED, Refused
from adaptlab_services.storage.upload_chunks import ROW_BYTES, ChunkWriting

BYTES = "application/octet-stream"
ROWS_AT_ONCE = 2
"""Rows of 1 MiB in one unit of work."""
HELD_BYTES = 2**20
"""In memory, of a body that is received whole; more goes to a file."""
_SHA256 = re.compile(r"(?:^|,)\s*sha-256\s*=\s*:([A-Za-z0-9+/=]{44}):\s*(?=$|,)")


@dataclass(frozen=True, slots=True)
class Received:
    """A whole body, in a file positioned at its start, and its SHA-256."""

    file: IO[bytes]
    sha256: str


def announced_digest(request: Request) -> str:
    """Return the SHA-256 in `Content-Digest` (RFC 9530), in hexadecimal.

    Raises:
        InvalidSpec: without a digest, or with several.
        Refused: if the body is not declared as bytes.
    """
    _check_kind(request)
    digests: list[str] = _SHA256.findall(",".join(request.headers.getlist("content-digest")))
    if len(digests) > 1:
        detail = f"There are {len(digests)} SHA-256 digests of the body; send one."
        raise InvalidSpec(Problem("/header/content-digest", "several_digests", detail))
    try:
        digest = base64.b64decode(digests[0], validate=True) if digests else b""
    except binascii.Error:
        digest = b""
    if len(digest) != 32:
        detail = "Send the SHA-256 of the body: `Content-Digest: sha-256=:BASE64:`."
        raise InvalidSpec(Problem("/header/content-digest", "missing_digest", detail))
    return digest.hex()


def check_digest(request: Request, sha256: str) -> None:
    """Raise `InvalidSpec` if the announced digest is not `sha256`."""
    if "content-digest" in request.headers and announced_digest(request) != sha256:
        detail = f"The SHA-256 of the body is {sha256}, but another was announced."
        raise InvalidSpec(Problem("/header/content-digest", "wrong_digest", detail))


@asynccontextmanager
async def receive(request: Request, folder: Path) -> AsyncGenerator[Received]:
    """Receive the whole body; a large one goes to an unnamed file in `folder`.

    Raises:
        Refused: if the body is not declared as bytes.
    """
    _check_kind(request)
    digest = hashlib.sha256()
    place = str(folder) if folder.is_dir() else None
    with tempfile.SpooledTemporaryFile(HELD_BYTES, dir=place) as file:

        def keep(row: bytes) -> None:
            digest.update(row)
            file.write(row)

        async for row in _rows(request):
            await run_in_threadpool(keep, row)
        file.seek(0)
        yield Received(file, digest.hexdigest())


async def take_in(request: Request, writing: ChunkWriting) -> None:
    """Write the body a few rows at a time; only these are in memory."""
    held: list[bytes] = []
    async for row in _rows(request):
        # Before the next row and not after this one: `finish` writes the last rows of a chunk.
        if len(held) == ROWS_AT_ONCE:
            await run_in_threadpool(writing.write, held)
            held = []
        held.append(row)
    await run_in_threadpool(writing.finish, held)


def _check_kind(request: Request) -> None:
    kind = request.headers.get("content-type", "missing").partition(";")[0].strip().lower()
    if kind != BYTES:
        raise Refused(UNSUPPORTED, f"The Content-Type is {kind[:64]!r}; send {BYTES}.")


async def _rows(request: Request) -> AsyncIterator[bytes]:
    """Yield the body in pieces of `ROW_BYTES`; each byte is copied once."""
    held: list[bytes | memoryview] = []
    missing = ROW_BYTES
    async for piece in request.stream():
        view = memoryview(piece)
        while len(view) >= missing:
            yield b"".join([*held, view[:missing]])
            view, held, missing = view[missing:], [], ROW_BYTES
        if view:
            held.append(view)
            missing -= len(view)
    if held:
        yield b"".join(held)
