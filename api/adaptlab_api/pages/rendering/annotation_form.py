"""The form of labels and notes on the pages of a job and a study."""

import json
from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.annotations import LONGEST_NOTES, AnnotationChanges
from adaptlab_api.requests.dependencies import valid

_CHANGES = TypeAdapter(AnnotationChanges)


def changes_of(fields: Mapping[str, Sequence[str]], labels: Mapping[str, str]) -> AnnotationChanges:
    """Return what a form changes on a job or study that has these labels.

    The form has all labels, one `name = value` per line, and the notes; or it only archives, with
    the field `archived`. Raises `InvalidSpec`, or `Refused` for NUL.
    """
    if "archived" in fields:
        return AnnotationChanges(archived=fields["archived"][0] == "yes")
    given = labels_of(fields.get("labels", ("",))[0])
    removed = dict.fromkeys(labels.keys() - given.keys())
    # Browsers send line breaks as two characters; a form cannot hold more than the API accepts.
    notes = fields.get("notes", ("",))[0].replace("\r\n", "\n").strip()
    document = {"labels": {**removed, **given}, "notes": notes}
    return valid(_CHANGES, json.dumps(document).encode())


def changed_labels(text: str) -> AnnotationChanges:
    """Return the change of one label: `name = value`, or `-name` to remove it.

    Raises `InvalidSpec`, or `Refused` for NUL.
    """
    removed = text.strip().removeprefix("-").strip()
    if "=" not in text and removed == text.strip():
        detail = f"{removed[:64]!r} has no value. Write name = value, or -name to remove a label."
        raise InvalidSpec(Problem("/label", "missing", detail))
    labels = labels_of(text) if "=" in text else {removed: None}
    return valid(_CHANGES, json.dumps({"labels": labels}).encode())


def labels_of(text: str) -> dict[str, str]:
    """Return the labels in lines of `name = value`."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def form_of(labels: Mapping[str, str], notes: str | None) -> dict[str, object]:
    """Return the values with which the form is shown."""
    text = "\n".join(f"{name} = {value}" for name, value in labels.items())
    return {"labels": text, "notes": notes or "", "longest": LONGEST_NOTES}
