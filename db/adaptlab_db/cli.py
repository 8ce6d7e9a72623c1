"""`adaptlab migrate`."""

import os
from typing import Annotated

import typer

from adaptlab_db.errors import TablesTooOld
from adaptlab_db.migrate import upgrade
from adaptlab_db.role_passwords import RolePasswords
from adaptlab_db.roles import make_logins
from adaptlab_db.secret_files import secret

DATABASE_URL = "ADAPTLAB_DATABASE_URL"


def _from_file() -> str:
    """Return the address in the file that the environment names."""
    url = secret(os.environ, DATABASE_URL)
    if url is None:
        raise typer.BadParameter(f"Set {DATABASE_URL} or {DATABASE_URL}_FILE.")
    return url


def migrate(
    database_url: Annotated[
        str,
        typer.Option(
            envvar=DATABASE_URL, show_envvar=True, show_default=False, default_factory=_from_file
        ),
    ],
    revision: Annotated[str, typer.Option(help="The revision to go up to.")] = "head",
) -> None:
    """Bring the database's tables up to date, and the rights of the API and the workers.

    With ADAPTLAB_API_DATABASE_PASSWORD and ADAPTLAB_WORKER_DATABASE_PASSWORD (or files, by names
    that end in _FILE) it creates the roles with which they connect to the database.
    """
    passwords = RolePasswords.given(os.environ)
    if passwords is not None:
        make_logins(database_url, passwords)
    try:
        upgrade(database_url, revision)
    except TablesTooOld as error:
        raise typer.BadParameter(str(error), param_hint="--database-url") from error
    typer.echo(f"The tables are at {revision}.")
