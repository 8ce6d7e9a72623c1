"""Names of classes in place of their numbers."""

from collections.abc import Iterator, Mapping, Sequence

from adaptlab.records.record import PlacedRecord

NO_CLASS = "-1"
"""The number of records without a label, which becomes an empty text."""


def named(
    placed: Iterator[PlacedRecord], class_names: Mapping[str, Sequence[str]]
) -> Iterator[PlacedRecord]:
    """Yield the records with names in place of numbers of classes."""
    if not class_names:
        yield from placed
        return
    by_number = {
        field: {NO_CLASS: "", **{str(number): name for number, name in enumerate(names)}}
        for field, names in class_names.items()
    }
    for line, record in placed:
        values = {
            field: by_number[field].get(value, value) if field in by_number else value
            for field, value in record.items()
        }
        yield PlacedRecord(line, values)
