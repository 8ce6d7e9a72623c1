"""Where the server is and which token opens it, found without being told."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from adaptlab_client.errors import NoServer, ServerStarting
from adaptlab_client.transport.credentials import read

DATA_DIRECTORY = ".adaptlab"


class Server(NamedTuple):
    """The address of a server, and a token for it if one is known."""

    url: str
    token: str | None


def discover(
    url: str | None = None,
    token: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    start: Path | None = None,
) -> Server:
    """The server to talk to: the arguments, else ADAPTLAB_URL and ADAPTLAB_TOKEN, else a file.

    The files are `server.json` and `token` in the data directory of `adaptlab up`:
    ADAPTLAB_DATA_DIR, or `.adaptlab` in `start` (the working directory) or a parent, or in the
    home directory. A token from a file is only ever used for the server that the same directory
    names, so that pointing ADAPTLAB_URL elsewhere does not hand it over. A token that
    `adaptlab login` kept for the server goes before that of the directory.

    Raises `NoServer` when nothing names a server, or the address is not one, `ServerStarting`
    (which is one) while `adaptlab up` has yet to write down where it listens, and `UnsafeFile`
    when others can get at the file of `adaptlab login`.
    """
    known = os.environ if environment is None else environment
    directory = _data_directory(known, start or Path.cwd())
    recorded = _recorded_url(directory) if directory else None
    kept = _Kept(known)
    address = url or known.get("ADAPTLAB_URL") or recorded or kept.latest
    if not address:
        if directory and _is_held(directory):
            raise ServerStarting(
                f"The server of {directory} is starting or stopping. Wait until `adaptlab up` "
                "prints its address, and try again."
            )
        raise NoServer(
            "No server was named and none was found. Start one here with `adaptlab up`, or set "
            "ADAPTLAB_DATA_DIR to the folder of a server on this machine. For a server "
            "elsewhere, set ADAPTLAB_URL, and run `adaptlab login` or set ADAPTLAB_TOKEN."
        )
    address = _checked(address)
    given = token or known.get("ADAPTLAB_TOKEN") or kept.token(address)
    if not given and directory and _belongs(directory, address, recorded, known):
        given = _recorded_token(directory)
    return Server(address, given or None)


class _Kept:
    """What `adaptlab login` has kept, read when it is asked for."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    @property
    def latest(self) -> str | None:
        """The server that was signed in to last."""
        return read(self._environment).latest

    def token(self, address: str) -> str | None:
        """The token for a server."""
        return read(self._environment).tokens.get(address)


def _checked(address: str) -> str:
    if not _is_address(address):
        raise NoServer(f"{address!r} is not the address of a server, such as http://127.0.0.1:8000")
    return address.rstrip("/")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # one that is no number is found out when it is asked for
    except ValueError:  # or a bracket that is not closed
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _data_directory(environment: Mapping[str, str], start: Path) -> Path | None:
    named = environment.get("ADAPTLAB_DATA_DIR")
    if named:
        return Path(named)
    places = [*(folder / DATA_DIRECTORY for folder in (start, *start.parents))]
    places.append(Path(environment.get("HOME") or Path.home()) / DATA_DIRECTORY)
    return next((place for place in places if place.is_dir() and _is_trusted(place)), None)


def _is_trusted(directory: Path) -> bool:
    """Whether the user or root owns it: anybody can make a `.adaptlab` in a shared folder."""
    return directory.stat().st_uid in (os.geteuid(), 0)


def _is_held(directory: Path) -> bool:
    """Whether the `adaptlab up` lives that took this directory, its server up or not."""
    try:
        process = int((directory / "lock").read_text())
        if process <= 0:
            return False
        os.kill(process, 0)  # which only asks whether it is there
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _recorded_url(directory: Path) -> str | None:
    try:
        document: object = json.loads((directory / "server.json").read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict):
        return None
    address = cast("dict[str, object]", document).get("url")
    return address if isinstance(address, str) else None


def _recorded_token(directory: Path) -> str | None:
    try:
        return (directory / "token").read_text().strip()
    except OSError:
        return None


def _belongs(
    directory: Path, address: str, recorded: str | None, environment: Mapping[str, str]
) -> bool:
    """Whether the token in `directory` is one for `address`.

    A directory that the user names and that knows no server is a container's volume, where the
    API has left its token.
    """
    if recorded is None:
        return str(directory) == environment.get("ADAPTLAB_DATA_DIR")
    return recorded.rstrip("/") == address
