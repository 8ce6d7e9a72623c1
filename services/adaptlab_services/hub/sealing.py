"""Sealing of tokens, so that a database is of no use without the key.

AES-256-GCM, by a key that is derived from the setting `hub_token_key` or, without it, is in a file
of the data directory. The user and the hub are authenticated too, so that a sealed token fits no
other row.
"""

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from adaptlab_services.settings import Settings

KEY_FILE = "hub-token-key"
KEY_BYTES = 32
NONCE_BYTES = 12


class Unsealable(Exception):
    """A sealed token that the server's key does not open."""


@dataclass(frozen=True, slots=True)
class Seal:
    """The key of a server; its text omits it."""

    _key: bytes

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the key of the settings, otherwise that of the data directory."""
        secret = settings.hub_token_key
        base = secret.encode() if secret is not None else _from_file(settings.data_dir / KEY_FILE)
        derivation = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=b"adaptlab hub")
        return cls(derivation.derive(base))

    def __repr__(self) -> str:
        """Return the name of the class alone."""
        return "Seal()"

    def close(self, text: str, place: str) -> bytes:
        """Return a sealed text that opens at its place only."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self._key).encrypt(nonce, text.encode(), place.encode())

    def open(self, sealed: bytes, place: str) -> str:
        """Return the text; raises `Unsealable`."""
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return AESGCM(self._key).decrypt(nonce, rest, place.encode()).decode()
        except InvalidTag as error:
            raise Unsealable from error


def _from_file(path: Path) -> bytes:
    """Return the bytes of a private file; create it if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written aside first, so that no other process reads half of it; the first one wins.
    aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        with suppress(FileExistsError):
            path.hardlink_to(aside)
        aside.unlink()
    return path.read_bytes()
