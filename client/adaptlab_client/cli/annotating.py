"""Options of the commands that change labels, notes and archiving."""

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

    labels: dict[str, str | None]
    notes: str | None
    archived: bool | None


def annotation_of(
    labels: Sequence[str] | None,
    removed: Sequence[str] | None,
    notes: str | None,
    archived: bool | None,
) -> Annotation:
    """Return the change; raises `UsageError` for none, or a label without `=`."""
    changes: dict[str, str | None] = dict.fromkeys(removed or ())
    for label in labels or ():
        name, is_given, value = label.partition("=")
        if not is_given:
            raise UsageError(f"--label {label!r} has no value. Write it as NAME=VALUE.")
        if name in changes:
            raise UsageError(f"The label {name!r} is given twice. Give it once.")
        changes[name] = value
    if not changes and notes is None and archived is None:
        raise UsageError(
            "Nothing would change. Use --label, --remove-label, --notes, --archive or --unarchive."
        )
    return Annotation(changes, notes, archived)


def archived_of(listed: Listed) -> "Archived | None":
    """Return the query of a list; None is the server's default."""
    return None if listed is Listed.EXCLUDE else listed.value
