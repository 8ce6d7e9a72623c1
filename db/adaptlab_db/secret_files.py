"""Secrets that stand in files: `NAME_FILE` in the environment names one that holds what `NAME` is.

A file can be closed to others; an environment is seen by whoever may look at the process.
"""

from collections.abc import Mapping
from pathlib import Path

SUFFIX = "_FILE"
LARGEST = 2**16  # bytes; a secret is a line


class SecretUnreadable(ValueError):
    """A file that should hold a secret cannot be read, or the secret is given in two ways."""


def secret(environment: Mapping[str, str], name: str) -> str | None:
    """The content of the file that `<name>_FILE` names, without the line's end; None without it.

    Raises `SecretUnreadable`, whose message holds nothing of the secret.
    """
    place = environment.get(f"{name}{SUFFIX}")
    if not place:
        return None
    if environment.get(name):
        raise SecretUnreadable(f"{name} and {name}{SUFFIX} are both set; set one of them.")
    try:
        content = Path(place).read_bytes()[:LARGEST].decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnreadable(
            f"{name}{SUFFIX} names {place}, which cannot be read: {error}."
        ) from error
    if not content:
        raise SecretUnreadable(f"{name}{SUFFIX} names {place}, which is empty.")
    return content
