"""The passwords of the roles that come to Postgres, and addresses made with them.

They stand in files of mode 0600 or in the environment of who needs them, never in arguments, and
reach Postgres as what it keeps of them anyway, so that no log of statements holds them.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import make_url

from adaptlab_db.rights import Part
from adaptlab_db.secret_files import secret

VARIABLES: Mapping[Part, str] = {
    "api": "ADAPTLAB_API_DATABASE_PASSWORD",
    "worker": "ADAPTLAB_WORKER_DATABASE_PASSWORD",
}


class OnePassword(ValueError):
    """One of the two roles has a password and the other has none."""


@dataclass(frozen=True, slots=True)
class RolePasswords:
    """What the API's and the workers' roles sign in with; not in the value's own text."""

    api: str = field(repr=False)
    worker: str = field(repr=False)

    @classmethod
    def generated(cls) -> "RolePasswords":
        """New ones, of letters that mean nothing in an address."""
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24))

    @classmethod
    def given(cls, environment: Mapping[str, str]) -> "RolePasswords | None":
        """Those that the environment holds, or files that it names; None without any.

        Raises `OnePassword`, and `SecretUnreadable` for a file that cannot be read.
        """
        found = {
            part: environment.get(name) or secret(environment, name)
            for part, name in VARIABLES.items()
        }
        if found["api"] and found["worker"]:
            return cls(found["api"], found["worker"])
        if found["api"] or found["worker"]:
            raise OnePassword(f"Set both of {' and '.join(VARIABLES.values())}, or neither.")
        return None

    def of(self, part: Part) -> str:
        """The password of one of them."""
        return self.api if part == "api" else self.worker


def role_of(database: str, part: Part) -> str:
    """The name of a role: roles are of a whole server, on which there may be other databases."""
    return f"{database}_{part}"


def address_for(owners: str, part: Part, passwords: RolePasswords) -> str:
    """The address at which a part comes to the database that the owner's address names."""
    url = make_url(owners)
    own = url.set(username=role_of(url.database or "", part), password=passwords.of(part))
    return own.render_as_string(hide_password=False)
