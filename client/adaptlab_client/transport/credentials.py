"""Tokens in files that only their owner can read: those of `adaptlab login`, those of jobs."""

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
    """What the file holds: tokens by address, and the server that was signed in to last."""

    tokens: Mapping[str, str]
    latest: str | None


def place(environment: Mapping[str, str]) -> Path:
    """Where the file is: below XDG_CONFIG_HOME, else `.config` in the home directory."""
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "adaptlab" / FILE_NAME


def read(environment: Mapping[str, str]) -> Credentials:
    """What is kept; raises `UnsafeFile` for a file that others can read or write, or own."""
    path = place(environment)
    try:
        found = path.stat()
    except OSError:
        return Credentials({}, None)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
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
    """Keep the token of a server, and that this was the last; returns the file."""
    known = read(environment)
    return _write(environment, {**known.tokens, address: token}, address)


def forget(environment: Mapping[str, str], address: str) -> str | None:
    """Drop the token of a server, and return it; None if there was none."""
    known = read(environment)
    if address not in known.tokens:
        return None
    rest = {kept: token for kept, token in known.tokens.items() if kept != address}
    _write(environment, rest, None if known.latest == address else known.latest)
    return known.tokens[address]


def file_of_job(environment: Mapping[str, str], job_id: str, folder: Path | None = None) -> Path:
    """Where the token of a job is kept, from the root on.

    It is in `folder`, or else beside the file of `adaptlab login`.
    """
    # An id of a server's is no path yet.
    name = f"{UUID(job_id)}.token"
    return ((folder or place(environment).with_name(JOBS_FOLDER)) / name).absolute()


def keep_of_job(file: Path, token: str) -> None:
    """Keep the token of a job, in place of an earlier one."""
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
    """Replace the file in one step by one that only its owner can ever have read."""
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
