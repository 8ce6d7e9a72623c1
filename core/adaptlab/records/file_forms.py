"""Forms of files with records, by the ends of their names."""

from pathlib import PurePath
from typing import Literal, cast, get_args

FileForm = Literal["csv", "tsv", "jsonl", "parquet"]
FORMS: tuple[FileForm, ...] = get_args(FileForm)
ENDS = "in .csv, .tsv, .jsonl, .ndjson or .parquet"


class UnknownForm(ValueError):
    """A file whose name does not show its form."""


def form_of(path: PurePath, wanted: FileForm | None = None) -> FileForm:
    """Return the form of a file, `wanted` or by the end of its name.

    Raises:
        UnknownForm: the name has another end.
    """
    suffix = path.suffix.lower().removeprefix(".").replace("ndjson", "jsonl")
    if wanted is None and suffix not in FORMS:
        raise UnknownForm(
            f"The form of {path.name!r} is not known by its name. Add --format with one of "
            f"{', '.join(FORMS)}, or let the name end {ENDS}."
        )
    return wanted or cast("FileForm", suffix)
