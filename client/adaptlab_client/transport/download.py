"""Files from the server: checked against their digest, and taken up again where they broke off."""

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
    """The bytes at `path`; raises `DigestMismatch` unless their SHA-256 is `digest` (if given)."""
    body = connection.send(Request("GET", path, headers={"Accept": "*/*"})).content
    if digest is not None:
        _check(hashlib.sha256(body).hexdigest(), digest, path)
    return body


def announced_digest(connection: Connection, path: str) -> str:
    """The SHA-256 of the file at `path`, which is its strong ETag."""
    found = connection.send(Request("HEAD", path, headers={"Accept": "*/*"}))
    digest = found.headers.get("ETag", "").strip('"')
    if len(digest) != hashlib.sha256().digest_size * 2:
        raise UnexpectedAnswer(f"{path} does not announce its SHA-256.")
    return digest


def save(
    connection: Connection, path: str, target: Path, digest: str, report: Report | None = None
) -> Path:
    """Fetch the file at `path` into `target`, which appears only when it is whole and right.

    What has arrived is kept in `TARGET.part`, and a later call goes on from there. `report` gets
    the bytes that are there and the size. Raises `DigestMismatch`, and then keeps nothing.
    """
    part = target.with_name(target.name + ".part")
    failures = 0
    while True:
        before = _size(part)
        try:
            _fetch(connection, path, part, digest, report)
            break
        except PASSING:
            # A connection that breaks again and again may still get through, piece by piece.
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


def _fetch(
    connection: Connection, path: str, part: Path, digest: str, report: Report | None
) -> None:
    """Append what is missing; a server that sends the whole file again is taken at its word."""
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
        if error.status != 416:  # everything is there already; the digest will tell
            raise


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _digest_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check(found: str, announced: str, path: str) -> None:
    if found != announced:
        raise DigestMismatch(
            f"The bytes of {path} have SHA-256 {found}, and {announced} was announced. Nothing was "
            "kept; fetch it again."
        )
