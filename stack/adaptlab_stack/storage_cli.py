"""The commands `storage`, `backup` and `restore`, for operators."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import AdaptlabError
from adaptlab_db.session import close
from adaptlab_services.server.stores import open_sessions
from adaptlab_services.settings import Settings
from adaptlab_services.storage.collecting import Retention, collect
from adaptlab_services.storage.moving_artifacts import move_artifacts
from adaptlab_services.storage.scrubbing import SHARE_BYTES, scrub
from adaptlab_services.storage.storage_status import status
from adaptlab_stack.backup import back_up
from adaptlab_stack.cli import DEFAULT_DATA_DIR, DataDir
from adaptlab_stack.database import reachable_database, settings_for
from adaptlab_stack.errors import StackError
from adaptlab_stack.restore import restore as restore_backup

Folder = Annotated[Path, typer.Argument(help="Folder of the backup.")]


class Action(StrEnum):
    """An action on stored bytes."""

    status = "status"
    scrub = "scrub"
    collect = "collect"
    move = "move"


def storage(
    action: Annotated[Action, typer.Argument(help="Action.")],
    data_dir: DataDir = DEFAULT_DATA_DIR,
    to: Annotated[
        str | None, typer.Option(help="For move: target store (postgres, directory or s3).")
    ] = None,
    at_least: Annotated[
        int, typer.Option(min=0, help="For move: only artifacts of this many bytes or more.")
    ] = 0,
    everything: Annotated[
        bool,
        typer.Option("--all", help="For scrub: check all artifacts, not only those that are due."),
    ] = False,
) -> None:
    """Show, check, collect or move the bytes that the server stores."""
    if action is Action.move and to is None:
        raise typer.BadParameter("name the store to move to: --to postgres, directory or s3")
    with _settings(data_dir) as settings, _sessions(settings) as sessions:
        actions: dict[Action, Callable[[], None]] = {
            Action.status: lambda: _print_status(sessions),
            Action.scrub: lambda: _scrub(sessions, settings, everything=everything),
            Action.collect: lambda: _collect(sessions, settings),
            Action.move: lambda: _move(sessions, to or "", at_least),
        }
        actions[action]()


def backup(
    folder: Folder,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing", help="Accept the backup even if artifacts are missing from it."
        ),
    ] = False,
) -> None:
    """Copy the database and all artifacts to a folder while the server runs."""
    with _settings(data_dir) as settings:
        copy = back_up(settings, folder)
    typer.echo(f"{copy.artifacts} artifacts ({copy.bytes} bytes) and the database are in {folder}")
    for sha256 in copy.missing:
        typer.echo(
            f"missing from the backup: {sha256}, whose bytes are damaged or deleted", err=True
        )
    if copy.missing and not allow_missing:
        typer.echo(
            f"error: {len(copy.missing)} artifacts are missing from the backup. Find out why "
            "with `adaptlab storage scrub --all`, or accept it with --allow-missing.",
            err=True,
        )
        raise typer.Exit(1)


def restore(folder: Folder, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Fill an empty database from a backup, checking every artifact.

    Restore only backups that you trust: the dump is run as SQL by the owner of the database, which
    is a superuser in the embedded stack.
    """
    with _settings(data_dir) as settings:
        result = restore_backup(settings, folder)
    typer.echo(
        f"restored {result.artifacts} artifacts; {result.requeued} jobs are queued to run again"
    )
    for sha256 in result.damaged:
        typer.echo(f"incomplete in the backup: {sha256}", err=True)
    if result.damaged:
        raise typer.Exit(1)


def _print_status(sessions: sessionmaker[Session]) -> None:
    with sessions() as session:
        stored = status(session)
    for share in stored.shares:
        oldest = share.least_recently_checked
        since = "-" if oldest is None else f"{oldest:%Y-%m-%d}"
        typer.echo(
            f"{share.store:<9} {share.state:<11} {share.artifacts:>7} artifacts "
            f"{share.bytes:>15} bytes, all checked since {since}"
        )
    typer.echo(f"unreferenced: {stored.unreferenced} artifacts, {stored.unreferenced_bytes} bytes")


def _scrub(sessions: sessionmaker[Session], settings: Settings, *, everything: bool) -> None:
    every = None if everything else timedelta(days=settings.scrub_days)
    result = scrub(sessions, every, None if everything else SHARE_BYTES)
    typer.echo(
        f"checked {result.checked} artifacts ({result.size} bytes), repaired {result.repaired}"
    )
    for sha256 in result.quarantined:
        typer.echo(f"quarantined: {sha256}", err=True)
    if result.quarantined:
        raise typer.Exit(1)


def _collect(sessions: sessionmaker[Session], settings: Settings) -> None:
    gone = collect(sessions, Retention(settings.attention_days, settings.checkpoint_days))
    typer.echo(
        f"collected {gone.unreferenced} unreferenced and {gone.expired} expired artifacts "
        f"({gone.size} bytes), {gone.uploads} uploads and {gone.strays} stray files"
    )


def _move(sessions: sessionmaker[Session], to: str, at_least: int) -> None:
    moved = move_artifacts(sessions, to, at_least)
    typer.echo(f"moved {moved.count} artifacts ({moved.size} bytes), skipped {moved.skipped}")


@contextmanager
def _settings(data_dir: Path) -> Generator[Settings]:
    try:
        with reachable_database(data_dir) as url:
            yield settings_for(url, data_dir)
    except (AdaptlabError, StackError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


@contextmanager
def _sessions(settings: Settings) -> Generator[sessionmaker[Session]]:
    sessions = open_sessions(settings)
    try:
        yield sessions
    finally:
        close(sessions)
