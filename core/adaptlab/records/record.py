"""One record of a dataset, and its canonical line.

The content of a dataset of records is canonical: one JSON object per line, every value a text, the
fields in the same order in all lines. Its SHA-256 is the dataset's digest. A record is known by its
place in the content, counted from 0.
"""

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

Record = Mapping[str, str]
"""A value by field; the order of the fields is the dataset's."""


class PlacedRecord(NamedTuple):
    """A record, and the line of its file at which it begins."""

    line: int
    record: Record


MOST_RECORDS = 2_000_000
MOST_BYTES = 2**30
"""Limit of the canonical content."""

MOST_FIELDS = 32
LONGEST_LINE = 2**20
"""Limit of a record in bytes, in a file of any form and as a canonical line."""

LONGEST_FIELD_NAME = 63
FORBIDDEN_IN_NAMES = "{}"
"""Braces enclose the name of a field in a template."""


def _checked(name: str) -> str:
    """Return the name of a field if a template can contain it."""
    if name != name.strip() or not name.isprintable() or set(name) & set(FORBIDDEN_IN_NAMES):
        raise PydanticCustomError(
            "not_a_field_name",
            "the name of a field has printable characters without braces, and no space at its ends",
        )
    return name


FieldName = Annotated[
    str, Field(min_length=1, max_length=LONGEST_FIELD_NAME), AfterValidator(_checked)
]


def canonical_line(record: Record) -> bytes:
    """Return the line of a record, with its end."""
    # All are texts, which one call each writes twice as fast as an encoder for every type.
    members = [f"{encode_basestring(key)}:{encode_basestring(record[key])}" for key in record]
    return f"{{{','.join(members)}}}\n".encode()
