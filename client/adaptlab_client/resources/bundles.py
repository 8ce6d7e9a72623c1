"""Downloads of bundles, checked against their digest."""

import base64
import hashlib
from pathlib import Path

from adaptlab_client.errors import DigestMismatch, UnexpectedAnswer
from adaptlab_client.transport.connection import Connection, Identity, Query, Request, path_of

SECONDS = 400.0
"""Time limit for the first byte: the server draws all plots before it."""
PIECE = 2**16


def save_bundle(connection: Connection, study: Identity, target: Path, query: Query) -> Path:
    """Download the bundle of a study to `target`, which appears once verified.

    Raises `DigestMismatch` if the bytes do not match the announced digest.
    """
    path = path_of("studies", study, "bundle")
    request = Request("GET", path, query=query, headers={"Accept": "*/*"}, seconds=SECONDS)
    part = target.with_name(target.name + ".part")
    digest = hashlib.sha256()
    try:
        with connection.open(request) as response, part.open("wb") as file:
            announced = _announced(response.headers.get("Content-Digest", ""), path)
            for piece in response.iter_bytes(PIECE):
                digest.update(piece)
                file.write(piece)
        if digest.digest() != announced:
            raise DigestMismatch(
                f"The bytes of {path} do not match the announced SHA-256. Download it again."
            )
        return part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _announced(header: str, path: str) -> bytes:
    """Return the SHA-256 in a `Content-Digest` header (RFC 9530)."""
    text = header.removeprefix("sha-256=:").removesuffix(":")
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise UnexpectedAnswer(f"{path} does not announce its SHA-256.") from error
    if len(digest) != hashlib.sha256().digest_size:
        raise UnexpectedAnswer(f"{path} does not announce its SHA-256.")
    return digest
