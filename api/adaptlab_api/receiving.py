"""Bodies that are bytes: taken in a piece at a time, with what they are announced to be."""

import base64
import binascii
import re
from collections.abc import AsyncIterator

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_api.problems import UNSUPPORTED, Refused
from adaptlab_services.upload_chunks import ROW_BYTES, ChunkWriting

BYTES = "application/octet-stream"
ROWS_AT_ONCE = 2
"""Rows of 1 MiB in one unit of work."""
_SHA256 = re.compile(r"(?:^|,)\s*sha-256\s*=\s*:([A-Za-z0-9+/=]{44}):\s*(?:$|,)")


def announced_digest(request: Request) -> str:
    """The SHA-256 in `Content-Digest` (RFC 9530), as hexadecimal digits.

    Raises `InvalidSpec` without one, and `Refused` where the body is not said to be bytes.
    """
    kind = request.headers.get("content-type", "missing").partition(";")[0].strip().lower()
    if kind != BYTES:
        raise Refused(UNSUPPORTED, f"The Content-Type is {kind[:64]!r}; send {BYTES}.")
    found = _SHA256.search(request.headers.get("content-digest", ""))
    try:
        digest = base64.b64decode(found[1], validate=True) if found else b""
    except binascii.Error:
        digest = b""
    if len(digest) != 32:
        detail = "Send the SHA-256 of the body: `Content-Digest: sha-256=:BASE64:`."
        raise InvalidSpec(Problem("/header/content-digest", "missing_digest", detail))
    return digest.hex()


async def take_in(request: Request, writing: ChunkWriting) -> None:
    """Hand over the body some rows at a time; no more than these are in memory."""
    held: list[bytes] = []
    async for row in _rows(request):
        held.append(row)
        if len(held) == ROWS_AT_ONCE:
            await run_in_threadpool(writing.write, held)
            held = []
    await run_in_threadpool(writing.finish, held)


async def _rows(request: Request) -> AsyncIterator[bytes]:
    """The body in pieces of `ROW_BYTES`; each byte is copied once."""
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
