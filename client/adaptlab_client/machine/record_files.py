"""Files of records on this machine, and their form and kind."""

import json
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast

from adaptlab.records.file_forms import FileForm
from adaptlab.records.file_reading import Reading, ReadingOptions
from adaptlab.records.gathering import CanonicalLines
from adaptlab.records.reading import reading_of_file, records_of
from adaptlab.records.record import LONGEST_LINE, Record
from adaptlab.text.cleaning import whole_reading

Kind = Literal["words", "records"]

_LANGUAGES = {"english", "german", "spanish"}
_COLUMNS_OF_WORDS = 3
_FIELDS = {
    *("answer", "category", "class", "completion", "id", "idx", "index", "label", "prompt"),
    *("question", "sentence", "sentiment", "split", "target", "text", "title"),
}
"""Usual names of fields; a first line with two of them is a header and not a triple of words."""


def whole_reading_of(path: Path, form: FileForm, options: ReadingOptions) -> Reading:
    """Return how a file is read, with what is changed in its labels.

    Raises:
        InvalidSpec: the file has problems, or it is not sure how it is read.
    """
    plain = reading_of_file(path, form, options, path.name)

    def records() -> Iterator[Record]:
        return (placed.record for placed in records_of(path, plain, path.name))

    return whole_reading(plain, options, records)


@contextmanager
def canonical(path: Path, reading: Reading) -> Generator[Path]:
    """Yield a temporary file with the records as canonical JSON lines.

    Raises:
        InvalidSpec: the file has problems or is beyond a limit of datasets.
    """
    with tempfile.TemporaryDirectory(prefix="adaptlab-") as folder:
        target = Path(folder) / "records.jsonl"
        with target.open("wb") as lines:
            records = (placed.record for placed in records_of(path, reading, path.name))
            lines.writelines(CanonicalLines(path.name).lines(records))
        yield target


def kind_of(path: Path, form: FileForm | None) -> Kind:
    """Return the kind of dataset that a file holds, by its first line.

    Three columns of TSV are words, unless two are usual names of fields; so are a JSON list of
    texts, and an object with the three languages. Everything else is records.
    """
    form = form or cast("FileForm", path.suffix.lower().removeprefix("."))
    if form in ("csv", "parquet", "xlsx"):
        return "records"
    line = _first_line(path)
    if form == "tsv":
        cells = {cell.strip().lower() for cell in line.split("\t")}
        is_header = len(cells & _FIELDS) > 1
        is_triple = line.count("\t") == _COLUMNS_OF_WORDS - 1
        return "words" if is_triple and not is_header else "records"
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return "records"
    if isinstance(value, list):
        members = cast("list[object]", value)
        return "records" if any(isinstance(one, dict) for one in members) else "words"
    is_of_words = isinstance(value, dict) and value.keys() >= _LANGUAGES
    return "words" if is_of_words else "records"


def _first_line(path: Path) -> str:
    """Return the first line that is not blank, or its first mebibyte."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            if line.strip():
                return line.decode("utf-8-sig", "replace").rstrip("\r\n")
    return ""
