"""JSON objects that are sent to the server."""

from collections.abc import Mapping

from pydantic import JsonValue

Document = dict[str, JsonValue]


def annotations_of(
    labels: Mapping[str, str | None] | None,
    notes: str | None,
    *,
    name: str | None,
    archived: bool | None,
) -> Document:
    """Return what is written on a job or study, without what is None."""
    changes: Document = {"labels": dict(labels)} if labels else {}
    if name is not None:
        changes["name"] = name
    if notes is not None:
        changes["notes"] = notes
    if archived is not None:
        changes["archived"] = archived
    return changes
