"""Forms of files with records, and what the names of files say."""

import re
from pathlib import PurePath
from typing import Annotated, Literal, cast, get_args

from pydantic import Field

FileForm = Literal["csv", "tsv", "jsonl", "parquet"]
FORMS: tuple[FileForm, ...] = get_args(FileForm)
LONGEST_FILE = 1024
"""Characters of the path of a file below a root."""
FileOfServer = Annotated[str, Field(pattern="/", max_length=LONGEST_FILE)]
"""A file below a dataset root of the server: ROOT/SUB/PATH."""
ENDS = "in .csv, .tsv, .jsonl, .ndjson, .json or .parquet"


def is_file(name: str) -> bool:
    """Return True for a file of the server; names have no slash."""
    return "/" in name


def dataset_name(path: PurePath) -> str:
    """Return a name for a dataset from that of its file."""
    name = re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("-._")
    return name[:63] or "records"


class UnknownForm(ValueError):
    """A file whose name does not show its form."""


def form_of(path: PurePath, wanted: FileForm | None = None) -> FileForm:
    """Return the form of a file, `wanted` or by the end of its name.

    Raises:
        UnknownForm: the name has another end.
    """
    suffix = path.suffix.lower().removeprefix(".")
    suffix = "jsonl" if suffix in ("ndjson", "json") else suffix
    if wanted is None and suffix not in FORMS:
        raise UnknownForm(
            f"The form of {path.name!r} is not known by its name. Add --format with one of "
            f"{', '.join(FORMS)}, or let the name end {ENDS}."
        )
    return wanted or cast("FileForm", suffix)
