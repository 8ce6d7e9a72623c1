"""The form of name, labels and notes on the pages of a job and a study."""

import json
from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.annotations import LONGEST_NOTES, JobAnnotations, StudyAnnotations
from adaptlab_api.requests.dependencies import valid

Fields = Mapping[str, Sequence[str]]
_JOB = TypeAdapter(JobAnnotations)
_STUDY = TypeAdapter(StudyAnnotations)


def job_changes(fields: Fields, labels: Mapping[str, str]) -> JobAnnotations:
    """Return what a form changes on a job that has these labels.

    The form has all labels, one `name = value` per line, the notes, and the name if the job can
    have one; or it only archives, with the field `archived`. Raises `InvalidSpec`, or `Refused` for
    NUL.
    """
    document = _document(fields, labels)
    if document.get("name") == "":
        document["name"] = None
    return valid(_JOB, json.dumps(document).encode())


def study_changes(fields: Fields, labels: Mapping[str, str]) -> StudyAnnotations:
    """Return what a form changes on a study, as `job_changes` does."""
    return valid(_STUDY, json.dumps(_document(fields, labels)).encode())


def changed_labels(text: str) -> JobAnnotations:
    """Return the change of one label: `name = value`, or `-name` to remove it.

    Raises `InvalidSpec`, or `Refused` for NUL.
    """
    removed = text.strip().removeprefix("-").strip()
    if "=" not in text and removed == text.strip():
        detail = f"{removed[:64]!r} has no value. Write name = value, or -name to remove a label."
        raise InvalidSpec(Problem("/label", "missing", detail))
    labels = labels_of(text) if "=" in text else {removed: None}
    return valid(_JOB, json.dumps({"labels": labels}).encode())


def _document(fields: Fields, labels: Mapping[str, str]) -> dict[str, object]:
    if "archived" in fields:
        return {"archived": fields["archived"][0] == "yes"}
    given = labels_of(fields.get("labels", ("",))[0])
    removed = dict.fromkeys(labels.keys() - given.keys())
    # Browsers send line breaks as two characters; a form cannot hold more than the API accepts.
    notes = fields.get("notes", ("",))[0].replace("\r\n", "\n").strip()
    name = {"name": fields["name"][0].strip()} if "name" in fields else {}
    return {"labels": {**removed, **given}, "notes": notes, **name}


def labels_of(text: str) -> dict[str, str]:
    """Return the labels in lines of `name = value`."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def form_of(labels: Mapping[str, str], notes: str | None) -> dict[str, object]:
    """Return the values with which the form is shown."""
    text = "\n".join(f"{name} = {value}" for name, value in labels.items())
    return {"labels": text, "notes": notes or "", "longest": LONGEST_NOTES}
