"""The form that makes a dataset of a file below a dataset root."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from adaptlab.records.file_forms import FORMS
from adaptlab_api.answers.state import Resources
from adaptlab_api.requests.dependencies import valid
from adaptlab_services.models.record_datasets import RecordsFromFile

FIELDS = {"/name": "Name", "/file": "File", "/format": "Format"}

_FILE = TypeAdapter(RecordsFromFile)


@dataclass(frozen=True, slots=True)
class FileForm:
    """The fields of the form, as typed."""

    name: str = ""
    file: str = ""
    format: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, Sequence[str]]) -> "FileForm":
        """Return the fields of a form."""

        def text(name: str) -> str:
            return next(iter(fields.get(name, ())), "").strip()

        return cls(text("name"), text("file"), text("format"))

    def asked(self) -> RecordsFromFile:
        """Return the new dataset; raises `InvalidSpec`, or `Refused` for NUL."""
        document = {"name": self.name, "kind": "records", "file": self.file}
        form = {"format": self.format} if self.format else {}
        return valid(_FILE, json.dumps(document | form).encode())


def file_form(
    opened: Resources, form: FileForm | None = None, faults: Sequence[str] = ()
) -> dict[str, object]:
    """Return the values of the template's form, which needs a dataset root."""
    aliases = opened.dataset_roots.aliases
    return {"form": form or FileForm(), "roots": aliases, "formats": FORMS, "faults": faults}
