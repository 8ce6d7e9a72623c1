"""The whole reading of a file, with what is changed in its labels."""

from collections.abc import Callable, Iterable

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.file_reading import Reading, ReadingOptions
from adaptlab.records.gathering import Gatherer
from adaptlab.records.label_cleaning import cleaning_of
from adaptlab.records.record import Record
from adaptlab.text.fitting import roles_of


def with_cleaning(reading: Reading, facts: RecordsFacts, options: ReadingOptions) -> Reading:
    """Return a reading with what the options change in the labels.

    Raises:
        InvalidSpec: there is no such field, or none with labels.
    """
    if not options.changes_labels:
        return reading
    roles = roles_of(facts)
    name = options.label or (roles and roles.answer) or ""
    field = facts.field(name)
    if field is None:
        names = tuple(facts.names())
        what = f"has no field {name!r}" if name else "has no field that is surely the label"
        detail = f"The file {what}. Name one of {', '.join(names)}."
        raise InvalidSpec(Problem("/label", "unknown_field", detail, allowed=names))
    return reading.model_copy(update={"cleaning": cleaning_of(field, options)})


def whole_reading(
    reading: Reading, options: ReadingOptions, records: Callable[[], Iterable[Record]]
) -> Reading:
    """Return a reading with its cleaning, for which `records` are read."""
    if not options.changes_labels:
        return reading
    gatherer = Gatherer()
    for record in records():
        gatherer.add(record)
    return with_cleaning(reading, gatherer.facts("records", gatherer.digest), options)
