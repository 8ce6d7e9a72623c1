"""Tokens of `adaptlab login` and of jobs, in files private to the owner."""

import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast
from uuid import UUID

from adaptlab_client.errors import UnsafeFile

FILE_NAME = "tokens.json"
JOBS_FOLDER = "jobs"


class Credentials(NamedTuple):
    """Tokens by server address, and the address of the latest login."""

    tokens: Mapping[str, str]
    latest: str | None


def place(environment: Mapping[str, str]) -> Path:
    """Return the path of the file: in XDG_CONFIG_HOME, else in `~/.config`."""
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "adaptlab" / FILE_NAME


def read(environment: Mapping[str, str]) -> Credentials:
    """Return the stored tokens; raises `UnsafeFile` if others have access."""
    path = place(environment)
    try:
        status = path.stat()
    except OSError:
        return Credentials({}, None)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise UnsafeFile(
            f"Other users have access to {path}, so its tokens are not used. Run `chmod "
            f"600 '{path}'` if you trust its content, and create new tokens if somebody may "
            "have read it."
        )
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Credentials({}, None)
    return _credentials(document)


def keep(environment: Mapping[str, str], address: str, token: str) -> Path:
    """Store the token of a server as the latest login, and return the file."""
    stored = read(environment)
    return _write(environment, {**stored.tokens, address: token}, address)


def forget(environment: Mapping[str, str], address: str) -> str | None:
    """Delete the stored token of a server and return it, or None."""
    stored = read(environment)
    if address not in stored.tokens:
        return None
    rest = {other: token for other, token in stored.tokens.items() if other != address}
    _write(environment, rest, None if stored.latest == address else stored.latest)
    return stored.tokens[address]


def file_of_job(environment: Mapping[str, str], job_id: str, folder: Path | None = None) -> Path:
    """Return the absolute path of the file for a job's token.

    It is in `folder`, by default next to the file of `adaptlab login`.
    """
    # The server chose the id: parsing it keeps it from pointing outside the folder.
    name = f"{UUID(job_id)}.token"
    return ((folder or place(environment).with_name(JOBS_FOLDER)) / name).absolute()


def keep_of_job(file: Path, token: str) -> None:
    """Store the token of a job, replacing an earlier one."""
    _replace(file, f"{token}\n")


def _credentials(document: object) -> Credentials:
    if not isinstance(document, dict):
        return Credentials({}, None)
    members = cast("dict[str, object]", document)
    tokens, latest = members.get("tokens"), members.get("latest")
    pairs = cast("dict[str, object]", tokens).items() if isinstance(tokens, dict) else ()
    texts = {address: token for address, token in pairs if isinstance(token, str)}
    return Credentials(texts, latest if isinstance(latest, str) else None)


def _write(environment: Mapping[str, str], tokens: Mapping[str, str], latest: str | None) -> Path:
    document = {"latest": latest, "tokens": dict(tokens)}
    return _replace(place(environment), json.dumps(document))


def _replace(path: Path, content: str) -> Path:
    """Replace the file atomically by one that only its owner could ever read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path
