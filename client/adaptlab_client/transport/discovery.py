"""Discovery of the server's address and token."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from adaptlab_client.errors import NoServer, ServerStarting
from adaptlab_client.transport.credentials import place, read
from adaptlab_client.transport.last_server import last_server

DATA_DIRECTORY = ".adaptlab"


class ServerAddress(NamedTuple):
    """The address of a server and the token for it, if there is one."""

    url: str
    token: str | None


def discover(
    url: str | None = None,
    token: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    start: Path | None = None,
) -> ServerAddress:
    """Return the server from the arguments, else the environment, else a file.

    The variables are ADAPTLAB_URL and ADAPTLAB_TOKEN. The files are `server.json` and `token` in
    the data directory of `adaptlab up`: ADAPTLAB_DATA_DIR, else `.adaptlab` in `start` (by default
    the working directory), in a parent of it, or in the home directory. Without them, it is the
    server that the user started last if it runs, or the one of a later `adaptlab login`.

    A token from a data directory is used only for the server named there, so a different
    ADAPTLAB_URL never receives it. A token stored by `adaptlab login` takes precedence over it.

    Raises:
        NoServer: no server is named, or its address is invalid.
        ServerStarting: `adaptlab up` has not recorded its address yet (a `NoServer`).
        UnsafeFile: other users have access to the file of `adaptlab login`.
    """
    variables = os.environ if environment is None else environment
    directory = _data_directory(variables, start or Path.cwd())
    stored = _StoredTokens(variables)
    named = url or variables.get("ADAPTLAB_URL")
    last = None
    if directory is None or not (_recorded_url(directory) or _is_held(directory)):
        last = _last_directory(variables)
    if last and _is_held(last) and (named or _is_later_than_login(variables)):
        directory = last
    recorded = _recorded_url(directory) if directory else None
    address = named or recorded or stored.latest
    if not address:
        raise _none_found(directory, last, is_named=bool(variables.get("ADAPTLAB_DATA_DIR")))
    address = _checked(address)
    token = token or variables.get("ADAPTLAB_TOKEN") or stored.token(address)
    if not token and directory and _belongs(directory, address, recorded, variables):
        token = _recorded_token(directory)
    return ServerAddress(address, token or None)


def _last_directory(environment: Mapping[str, str]) -> Path | None:
    """Return the directory of the last server, unless another one is named."""
    last = last_server(environment)
    if last is None or environment.get("ADAPTLAB_DATA_DIR") or not _is_trusted(last.directory):
        return None
    return last.directory


def _is_later_than_login(environment: Mapping[str, str]) -> bool:
    last, login = last_server(environment), place(environment)
    return last is not None and (not login.exists() or last.started >= login.stat().st_mtime)


def _none_found(directory: Path | None, last: Path | None, *, is_named: bool) -> NoServer:
    if directory and _is_held(directory):
        return ServerStarting(
            f"The server of {directory} is starting or stopping. Wait until `adaptlab up` "
            "prints its address, and try again."
        )
    if last:
        return NoServer(
            f"The server that you started last, in {last}, is not running. Start it again with "
            f"`adaptlab up --data-dir '{last}'`. For another server, set ADAPTLAB_URL or run "
            "`adaptlab login --url URL`."
        )
    if is_named:
        return NoServer(
            f"No server runs in {directory}, which ADAPTLAB_DATA_DIR names. Start one there with "
            "`adaptlab up`, or correct or unset the variable."
        )
    return NoServer(
        "No server was named and none was found. Start one here with `adaptlab up`, or set "
        "ADAPTLAB_DATA_DIR to the folder of a server on this machine. For a server "
        "elsewhere, set ADAPTLAB_URL, and run `adaptlab login` or set ADAPTLAB_TOKEN."
    )


class _StoredTokens:
    """The tokens that `adaptlab login` has stored, read on demand."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    @property
    def latest(self) -> str | None:
        """The server of the latest login."""
        return read(self._environment).latest

    def token(self, address: str) -> str | None:
        """Return the token for a server."""
        return read(self._environment).tokens.get(address)


def _checked(address: str) -> str:
    if not _is_address(address):
        raise NoServer(f"{address!r} is not a server address such as http://127.0.0.1:8000.")
    return address.rstrip("/")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises if it is not a number
    except ValueError:  # or if a bracket is not closed
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
    """Return True if the user or root owns it.

    In a shared folder, anybody can create a `.adaptlab`.
    """
    return directory.stat().st_uid in (os.geteuid(), 0)


def _is_held(directory: Path) -> bool:
    """Return True if the `adaptlab up` that locked this directory is alive."""
    try:
        process = int((directory / "lock").read_text())
        if process <= 0:
            return False
        os.kill(process, 0)  # sends no signal, only checks that the process exists
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
    """Return True if the token in `directory` belongs to `address`.

    A directory from ADAPTLAB_DATA_DIR without a recorded server is a container's volume, in which
    the API has stored its token.
    """
    if recorded is None:
        return str(directory) == environment.get("ADAPTLAB_DATA_DIR")
    return recorded.rstrip("/") == address
