"""A file that a page sends, and what was said about its reading."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from urllib.parse import urlencode
from uuid import UUID

from pydantic import TypeAdapter

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_forms import (
    ENDS,
    FORMS,
    FileForm,
    UnknownForm,
    dataset_name,
    form_of,
)
from adaptlab.records.file_reading import DELIMITERS, ENCODINGS, MENDING, ReadingOptions
from adaptlab_api.requests.dependencies import valid
from adaptlab_services.models.record_datasets import RecordsFromUpload

FIELDS = {
    "/name": "Name", "/format": "Format", "/delimiter": "Delimiter", "/encoding": "Encoding",
    "/label": "Label", "/upload": "File",
}  # fmt: skip
LONGEST_NAME = 255

_OPTIONS = TypeAdapter(ReadingOptions)
_RECORDS = TypeAdapter(RecordsFromUpload)
_FORM = TypeAdapter(FileForm)
SAID = ("format", "delimiter", "encoding", "label")


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that was sent, and what was said about it, as typed."""

    file: str
    said: Mapping[str, str] = field(default_factory=dict[str, str])
    changes: frozenset[str] = frozenset()
    name: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, Sequence[str]]) -> "SentFile":
        """Return the fields of a form or of an address."""

        def text(name: str) -> str:
            return next(iter(fields.get(name, ())), "").strip()

        said = {name: given for name in SAID if (given := text(name))}
        changes = frozenset(name for name in MENDING if text(name))
        return cls(text("file")[:LONGEST_NAME], said, changes, text("name"))

    def form(self) -> FileForm:
        """Return the form of the file; raises `InvalidSpec`."""
        wanted = self.said.get("format")
        try:
            given = None if wanted is None else valid(_FORM, json.dumps(wanted).encode())
            return form_of(PurePath(self.file), given)
        except UnknownForm as error:
            detail = error.other or (
                f"The form of {self.file!r} is not known by its name. Choose it, or end it {ENDS}."
            )
            raise InvalidSpec(Problem("/format", "unknown_form", detail)) from error

    def options(self) -> ReadingOptions:
        """Return what was said about the reading; raises `InvalidSpec`."""
        return valid(_OPTIONS, json.dumps(self._options()).encode())

    def asked(self, upload: UUID) -> RecordsFromUpload:
        """Return the dataset to create; raises `InvalidSpec`."""
        document = {
            "name": self.name, "kind": "records", "upload": str(upload), "format": self.form(),
            **self._options(),
        }  # fmt: skip
        return valid(_RECORDS, json.dumps(document).encode())

    def address(self, upload: UUID) -> str:
        """Return the address of the file's page."""
        return f"/datasets/uploads/{upload}?{urlencode({'file': self.file, **self.said})}"

    def usual_name(self) -> str:
        """Return the name that the dataset gets unless another is typed."""
        return self.name or dataset_name(PurePath(self.file))

    def shown(self) -> dict[str, object]:
        """Return the values of the template's forms."""
        return {
            "sent": self, "formats": FORMS, "delimiters": DELIMITERS, "encodings": ENCODINGS,
        }  # fmt: skip

    def _options(self) -> dict[str, object]:
        said = {name: value for name, value in self.said.items() if name != "format"}
        return {**said, **dict.fromkeys(self.changes, True)}
