"""`adaptlab migrate`."""

from typing import Annotated

import typer

from adaptlab_db.migrate import upgrade


def migrate(
    database_url: Annotated[
        str,
        typer.Option(envvar="ADAPTLAB_DATABASE_URL", show_envvar=True, show_default=False),
    ],
    revision: Annotated[str, typer.Option(help="The revision to go up to.")] = "head",
) -> None:
    """Bring the database's tables up to date."""
    upgrade(database_url, revision)
    typer.echo(f"The tables are at {revision}.")
