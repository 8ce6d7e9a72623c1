"""Forms of files with records, and what the names of files say."""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Literal, cast, get_args

from pydantic import Field

FileForm = Literal["csv", "tsv", "jsonl", "parquet", "xlsx"]
FORMS: tuple[FileForm, ...] = get_args(FileForm)
HUB_PREFIX = "hub:"
"""The beginning of names on a hub, which are no paths of files."""
BINARY: tuple[FileForm, ...] = ("parquet", "xlsx")
"""Forms that are read from a file, and not from a stream of text."""
LONGEST_FILE = 1024
"""Characters of the path of a file below a root."""
FileOfServer = Annotated[str, Field(pattern=f"/|^{HUB_PREFIX}", max_length=LONGEST_FILE)]
"""A file below a dataset root of the server, ROOT/SUB/PATH, or a dataset on the hub."""
ENDS = "in .csv, .tsv, .jsonl, .ndjson, .json, .parquet or .xlsx"


_UNREAD: Mapping[str, str] = {
    "xls": "an old workbook of Excel. Save it as .xlsx",
    "gz": "compressed (gzip). Unpack it",
    "bz2": "compressed (bzip2). Unpack it",
    "xz": "compressed (xz). Unpack it",
    "zst": "compressed (zstd). Unpack it",
    "zip": "an archive. Unpack it",
    "pdf": "a PDF. Give a table",
    "pkl": "a pickle, which is never loaded. Save it as Parquet or CSV",
    "npy": "an array of NumPy. Save it as Parquet or CSV",
    "feather": "Arrow (Feather). Save it as Parquet",
}
"""Forms that are not read, by the end of the name."""


def is_file(name: str) -> bool:
    """Return True for a file of the server or a name on the hub."""
    return "/" in name or name.startswith(HUB_PREFIX)


def dataset_name(path: PurePath) -> str:
    """Return a name for a dataset from that of its file."""
    name = re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("-._")
    return name[:63] or "records"


class UnknownForm(ValueError):
    """A file whose name does not show its form.

    `other` says what it is and what to do if the name shows a form that is not read.
    """

    def __init__(self, message: str, other: str | None) -> None:
        super().__init__(other or message)
        self.other = other


def form_of(path: PurePath, wanted: FileForm | None = None) -> FileForm:
    """Return the form of a file, `wanted` or by the end of its name.

    Raises:
        UnknownForm: the name has another end.
    """
    suffix = path.suffix.lower().removeprefix(".")
    suffix = {"ndjson": "jsonl", "json": "jsonl", "xlsm": "xlsx"}.get(suffix, suffix)
    if wanted is None and suffix not in FORMS:
        raise UnknownForm(
            f"The form of {path.name!r} is not known by its name. Add --format with one of "
            f"{', '.join(FORMS)}, or let the name end {ENDS}.",
            f"{path.name!r} is {_UNREAD[suffix]}." if suffix in _UNREAD else None,
        )
    return wanted or cast("FileForm", suffix)


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a workbook or another archive. Give its form, xlsx, or unpack it"),
    (b"PAR1", "Parquet. Give its form, parquet"),
    (b"\xd0\xcf\x11\xe0", _UNREAD["xls"]),
    (b"\x1f\x8b", _UNREAD["gz"]),
    (b"BZh", _UNREAD["bz2"]),
    (b"\xfd7zXZ", _UNREAD["xz"]),
    (b"(\xb5/\xfd", _UNREAD["zst"]),
    (b"%PDF", _UNREAD["pdf"]),
    (b"\x80\x04\x95", _UNREAD["pkl"]),
    (b"\x93NUMPY", _UNREAD["npy"]),
    (b"ARROW1", _UNREAD["feather"]),
    (
        b"version https://git-lfs.github.com",
        "a pointer of Git LFS and not the file itself. Fetch it with `git lfs pull`",
    ),
    (b"\xff\xfe\x00\x00", "UTF-32. Save it as UTF-8"),
)
_PAGE = re.compile(rb"(?i)(\xef\xbb\xbf)?\s*<(!doctype html|html)\b")


def wrong_form(beginning: bytes) -> str | None:
    """Return the error of bytes that begin no text, None for a text."""
    other = next((what for magic, what in _MAGIC if beginning.startswith(magic)), None)
    if other is None and _PAGE.match(beginning):
        other = "a page (HTML), such as that of a sign-in. Download the file itself"
    return other and f"The file is {other}."
