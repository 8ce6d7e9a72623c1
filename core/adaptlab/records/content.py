"""Records from the canonical content of a dataset."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from pydantic import TypeAdapter

from adaptlab.errors import BadDataset
from adaptlab.records.lines import Line, lines_of
from adaptlab.records.problems import NotARecord
from adaptlab.records.record import Record, canonical_line

_RECORD: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


class Hash(Protocol):
    """A digest that grows with what is added."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...


def read_content(pieces: Iterable[bytes], digest: str) -> Iterator[Record]:
    """Yield the records of canonical content, such as an open file.

    The pieces can be cut anywhere.

    Raises:
        BadDataset: the content is not canonical, or, after the last record, it has another
            SHA-256.
    """
    content, fields = hashlib.sha256(), None
    try:
        for line in lines_of(_hashed(pieces, content)):
            record = _record(line)
            fields = fields or list(record or ())
            if record is None or list(record) != fields:
                raise _not_canonical(digest, line.number)
            yield record
    except NotARecord as error:
        raise _not_canonical(digest, error.place) from error
    if (actual := content.hexdigest()) != digest:
        raise BadDataset(f"The dataset {digest} arrived with the SHA-256 {actual}. Fetch it again.")


def _hashed(pieces: Iterable[bytes], content: "Hash") -> Iterator[bytes]:
    for piece in pieces:
        content.update(piece)
        yield piece


def _record(line: Line) -> Record | None:
    """Return the record of a canonical line, None for another line."""
    try:
        record = _RECORD.validate_json(line.content, strict=True)
    except ValueError:  # no JSON, or no mapping of texts
        return None
    is_canonical = canonical_line(record) == line.content + b"\n" * line.is_ended
    return record if record and is_canonical else None


def _not_canonical(digest: str, line: int) -> BadDataset:
    return BadDataset(
        f"The dataset {digest} is not canonical: line {line:,} is not a record with the fields of "
        "the first. Upload it again."
    )
