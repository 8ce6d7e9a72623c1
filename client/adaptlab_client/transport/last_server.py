"""The data directory of the server that the user started last.

`adaptlab up` writes its path to a file, so that commands in other folders find the server.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class LastServer(NamedTuple):
    """A data directory, and when a server was started in it."""

    directory: Path
    started: float


def record_of(environment: Mapping[str, str]) -> Path:
    """Return the path of the file, in XDG_STATE_HOME or `~/.local/state`."""
    home = Path(environment.get("HOME") or Path.home())
    state = environment.get("XDG_STATE_HOME") or home / ".local" / "state"
    return Path(state) / "adaptlab" / "last-server"


def last_server(environment: Mapping[str, str]) -> LastServer | None:
    """Return the server that was started last, whether it runs or not."""
    record = record_of(environment)
    try:
        directory = Path(record.read_text(encoding="utf-8").strip())
        return LastServer(directory, record.stat().st_mtime) if directory.is_dir() else None
    except (OSError, ValueError):
        return None
