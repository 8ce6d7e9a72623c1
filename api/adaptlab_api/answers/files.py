"""File answers with ETag, conditions and one range (RFC 9110, 13 and 14)."""

import re
from dataclasses import dataclass

from sqlalchemy.orm import Session, sessionmaker
from starlette.datastructures import Headers
from starlette.responses import Response

from adaptlab_api.answers.streaming import Pieces
from adaptlab_services.errors import RangeNotSatisfiable
from adaptlab_services.storage.stored_files import StoredFile, require, stream

# Private: the content at an address never changes, but the permission to see it can.
CACHE = "private, max-age=31536000, immutable"
_RANGE = re.compile(r"bytes=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes from `start` to before `stop`."""

    start: int
    stop: int


def file_answer(
    sessions: sessionmaker[Session], file: StoredFile, headers: Headers, *, head: bool = False
) -> Response:
    """Return the answer to GET or HEAD for a stored file.

    A request for several ranges gets the whole file, as the RFC allows.

    Raises:
        RangeNotSatisfiable: if the range is outside the file.
        ArtifactGone: if the bytes are not available.
    """
    etag = f'"{file.sha256}"'
    fixed = {"ETag": etag, "Cache-Control": CACHE, "Accept-Ranges": "bytes"}
    if has_current(headers, etag):
        return Response(status_code=304, headers=fixed)
    require(sessions, file)  # the status cannot change once the answer has begun
    span = None if head else _asked_span(headers, etag, file.size)
    whole = ByteRange(0, file.size)
    sent = span or whole
    fixed |= {
        "Content-Length": str(sent.stop - sent.start),
        "Content-Disposition": f'attachment; filename="{file.filename}"',
        "X-Content-Type-Options": "nosniff",
    }
    if span is not None:
        fixed["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{file.size}"
    if head:
        return Response(headers=fixed, media_type=file.media_type)
    pieces = stream(sessions, file, sent.start, sent.stop)
    return Pieces(pieces, 200 if span is None else 206, fixed, file.media_type)


def has_current(headers: Headers, etag: str) -> bool:
    """Return True if the caller already has the content with this tag."""
    header = headers.get("if-none-match")
    if header is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return etag in tags or "*" in tags


def _asked_span(headers: Headers, etag: str, size: int) -> ByteRange | None:
    """Return the requested range, or None to send the whole file."""
    asked = headers.get("range")
    if asked is None or headers.get("if-range", etag) != etag:
        return None
    match = _RANGE.fullmatch(asked)
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:  # the last bytes
        start, stop = max(size - int(match[2]), 0), size
    else:
        start, stop = int(match[1]), min(int(match[2]) + 1 if match[2] else size, size)
        if match[2] and int(match[2]) < start:
            return None
    if start >= size or start >= stop:
        raise RangeNotSatisfiable(size)
    return ByteRange(start, stop)
