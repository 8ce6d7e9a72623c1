"""Bundles from the server: saved when they are whole and right."""

import base64
import hashlib
from pathlib import Path

from adaptlab_client.errors import DigestMismatch, UnexpectedAnswer
from adaptlab_client.transport.connection import Connection, Identity, Query, Request, path_of

SECONDS = 400.0
"""To wait for the first byte: plots are drawn before it comes."""
PIECE = 2**16


def save_bundle(connection: Connection, study: Identity, target: Path, query: Query) -> Path:
    """Fetch the bundle of a study into `target`, which appears when it is there and checked.

    Raises `DigestMismatch` for bytes that are not those that the server has made.
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
            raise DigestMismatch(f"The bytes of {path} are not those that were announced.")
        return part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _announced(header: str, path: str) -> bytes:
    """The SHA-256 in a `Content-Digest` (RFC 9530)."""
    text = header.removeprefix("sha-256=:").removesuffix(":")
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise UnexpectedAnswer(f"{path} does not announce its SHA-256.") from error
    if len(found) != hashlib.sha256().digest_size:
        raise UnexpectedAnswer(f"{path} does not announce its SHA-256.")
    return found
