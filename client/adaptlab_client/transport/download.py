"""Downloads: checked against their digest, and resumed after a break."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from adaptlab_client.errors import (
    PASSING,
    ApiError,
    DigestMismatch,
    UnexpectedAnswer,
)
from adaptlab_client.transport.connection import Connection, Request

Report = Callable[[int, int | None], None]


def content(connection: Connection, path: str, digest: str | None) -> bytes:
    """Return the bytes at `path`; raises `DigestMismatch` if `digest` differs."""
    body = connection.send(Request("GET", path, headers={"Accept": "*/*"})).content
    if digest is not None:
        _check(hashlib.sha256(body).hexdigest(), digest, path)
    return body


def announced_digest(connection: Connection, path: str) -> str:
    """Return the SHA-256 of the file at `path`, which is its strong ETag."""
    response = connection.send(Request("HEAD", path, headers={"Accept": "*/*"}))
    digest = response.headers.get("ETag", "").strip('"')
    if len(digest) != hashlib.sha256().digest_size * 2:
        raise UnexpectedAnswer(f"{path} does not announce its SHA-256.")
    return digest


def save(
    connection: Connection, path: str, target: Path, digest: str, report: Report | None = None
) -> Path:
    """Download the file at `path` to `target`, and verify it.

    `target` appears once it is verified. Received bytes are stored in `TARGET.part`, from which a
    later call resumes. `report` is called with the number of bytes received and the size. Raises
    `DigestMismatch`; the partial file is then deleted.
    """
    part = target.with_name(target.name + ".part")
    failures = 0
    while True:
        before = _size(part)
        try:
            _fetch(connection, path, part, digest, report)
            break
        except PASSING:
            # A connection that keeps breaking may still deliver the file piece by piece.
            failures = 1 if _size(part) > before else failures + 1
            if failures >= connection.retries.attempts:
                raise
            connection.retries.pause(failures)
    try:
        _check(_digest_of(part), digest, path)
    except DigestMismatch:
        part.unlink()
        raise
    return part.replace(target)


def is_present(file: Path, digest: str) -> bool:
    """Return True if there is a file with this content."""
    return file.is_file() and _digest_of(file) == digest


def _fetch(
    connection: Connection, path: str, part: Path, digest: str, report: Report | None
) -> None:
    """Append the missing bytes, or start over if the server sends all of them."""
    have = _size(part)
    headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": f'"{digest}"'}
    try:
        with connection.open(Request("GET", path, headers=headers)) as response:
            resumed = response.status_code == 206
            have = have if resumed else 0
            length = response.headers.get("Content-Length", "")
            total = have + int(length) if length.isdecimal() else None
            with part.open("ab" if resumed else "wb") as file:
                for chunk in response.iter_bytes():
                    file.write(chunk)
                    have += len(chunk)
                    if report:
                        report(have, total)
    except ApiError as error:
        if error.status != 416:  # all bytes have arrived; the digest decides
            raise


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _digest_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check(digest: str, announced: str, path: str) -> None:
    if digest != announced:
        raise DigestMismatch(
            f"The bytes of {path} have SHA-256 {digest}, but {announced} was announced. The file "
            "was not saved; download it again."
        )
