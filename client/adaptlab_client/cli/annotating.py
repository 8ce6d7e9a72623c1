"""Options of the commands that change names, labels, notes and archiving."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageError

if TYPE_CHECKING:
    from adaptlab_client.resources.jobs import Archived


class Listed(StrEnum):
    """The values of the option `--archived`."""

    EXCLUDE = "exclude"
    ONLY = "only"
    INCLUDE = "include"


LabelOption = Annotated[
    list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="Set a label.")
]
RemoveLabelOption = Annotated[
    list[str] | None, typer.Option("--remove-label", metavar="NAME", help="Remove a label.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Rename; only one at a time.")
]
NotesOption = Annotated[
    str | None, typer.Option(help="Replace the notes; an empty text removes them.")
]
ArchiveOption = Annotated[
    bool | None,
    typer.Option("--archive/--unarchive", help="Leave out of lists, or list again."),
]
ArchivedOption = Annotated[Listed, typer.Option(help="What to do with archived ones.")]


@dataclass(frozen=True, slots=True)
class Annotation:
    """What a command changes; None leaves as it is."""

    name: str | None
    labels: dict[str, str | None]
    notes: str | None
    archived: bool | None


def annotation_of(
    things: Sequence[str],
    name: str | None,
    labels: Sequence[str] | None,
    removed: Sequence[str] | None,
    notes: str | None,
    archived: bool | None,
) -> Annotation:
    """Return the change; raises `UsageError` for none, or one that cannot be.

    `things` are the jobs or studies that change.
    """
    if name is not None and len(things) > 1:
        raise UsageError(f"--name would name {len(things)} alike. Rename one at a time.")
    changes: dict[str, str | None] = dict.fromkeys(removed or ())
    for label in labels or ():
        key, is_given, value = label.partition("=")
        if not is_given:
            raise UsageError(f"--label {label!r} has no value. Write it as NAME=VALUE.")
        if key in changes:
            raise UsageError(f"The label {key!r} is given twice. Give it once.")
        changes[key] = value
    if not changes and name is None and notes is None and archived is None:
        raise UsageError(
            "Nothing would change. Use --name, --label, --remove-label, --notes, --archive or "
            "--unarchive."
        )
    return Annotation(name, changes, notes, archived)


def archived_of(listed: Listed) -> "Archived | None":
    """Return the query of a list; None is the server's default."""
    return None if listed is Listed.EXCLUDE else listed.value
