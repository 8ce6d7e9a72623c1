"""JSON objects that are sent to the server."""

from collections.abc import Mapping

from pydantic import JsonValue

Document = dict[str, JsonValue]


def annotations_of(
    labels: Mapping[str, str | None] | None, notes: str | None, *, archived: bool | None
) -> Document:
    """Return a change of labels, notes and archiving, without what is None."""
    changes: Document = {"labels": dict(labels)} if labels else {}
    if notes is not None:
        changes["notes"] = notes
    if archived is not None:
        changes["archived"] = archived
    return changes
