"""Secrets in files that the environment names.

`NAME_FILE` in the environment is the path of a file with the value of `NAME`.

A file can be closed to other users; the environment of a process can be read by more of them.
"""

from collections.abc import Mapping
from pathlib import Path

SUFFIX = "_FILE"
LARGEST = 2**16  # bytes; a secret is a line


class SecretUnreadable(ValueError):
    """A file with a secret cannot be read, or the secret is given in two ways."""


def secret(environment: Mapping[str, str], name: str) -> str | None:
    """Return the content of the file at `<name>_FILE`, or None without one.

    The line's end is left out. Raises `SecretUnreadable`, whose message contains nothing of the
    secret.
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
