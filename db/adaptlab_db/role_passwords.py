"""The passwords of the Postgres roles, and addresses with them.

They are kept in files of mode 0600 or in the environment of a process, never in arguments. Postgres
receives only the hash that it stores, so that no log of statements contains them.
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
    """The passwords of the API's and the workers' roles.

    `repr` does not show them.
    """

    api: str = field(repr=False)
    worker: str = field(repr=False)

    @classmethod
    def generated(cls) -> "RolePasswords":
        """Return new passwords.

        They have no characters that have a meaning in an address.
        """
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24))

    @classmethod
    def given(cls, environment: Mapping[str, str]) -> "RolePasswords | None":
        """Return the passwords in the environment or in files that it names.

        None without any. Raises `OnePassword`, and `SecretUnreadable` for a file that cannot be
        read.
        """
        passwords = {
            part: environment.get(name) or secret(environment, name)
            for part, name in VARIABLES.items()
        }
        if passwords["api"] and passwords["worker"]:
            return cls(passwords["api"], passwords["worker"])
        if passwords["api"] or passwords["worker"]:
            raise OnePassword(f"Set both of {' and '.join(VARIABLES.values())}, or neither.")
        return None

    def of(self, part: Part) -> str:
        """Return the password of one part."""
        return self.api if part == "api" else self.worker


def role_of(database: str, part: Part) -> str:
    """Return the name of a role.

    It contains the database's name, as roles belong to the whole server.
    """
    return f"{database}_{part}"


def address_for(owners: str, part: Part, passwords: RolePasswords) -> str:
    """Return the address with which a part connects to the database.

    The database is that of the owner's address.
    """
    url = make_url(owners)
    own = url.set(username=role_of(url.database or "", part), password=passwords.of(part))
    return own.render_as_string(hide_password=False)
