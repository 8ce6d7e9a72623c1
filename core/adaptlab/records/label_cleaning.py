"""Missing labels and labels in several writings, found and cleaned."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.facts import FieldFacts, ValueCount
from adaptlab.records.file_reading import LabelCleaning, ReadingOptions
from adaptlab.records.label_values import alike, can_be_a_label, is_missing
from adaptlab.records.record import PlacedRecord

RARE = 0.05
"""Share of the records below which a value such as `none` is taken for no label."""


class Writings(NamedTuple):
    """One label in several writings.

    The most frequent one without spare spaces is kept.
    """

    kept: str
    others: tuple[str, ...]


def missing_of(field: FieldFacts) -> tuple[ValueCount, ...]:
    """Return the values of a field that mean no label.

    A value that can be a label is one where it is frequent.
    """
    values = field.values or ()
    few = RARE * sum(one.count for one in values)
    return tuple(
        one
        for one in values
        if is_missing(one.value) and not (can_be_a_label(one.value) and one.count >= few)
    )


def _labelled(field: FieldFacts) -> dict[str, int]:
    missing = {one.value for one in missing_of(field)}
    return {one.value: one.count for one in field.values or () if one.value not in missing}


def writings_of(field: FieldFacts) -> tuple[Writings, ...]:
    """Return the labels of a field that have several writings."""
    counts = _labelled(field)
    groups = (
        sorted(group, key=lambda one: (one != " ".join(one.split()), -counts[one], one))
        for group in alike(counts)
    )
    return tuple(Writings(kept, tuple(others)) for kept, *others in groups)


def counted_labels(field: FieldFacts) -> dict[str, int]:
    """Return the labels of a field as cleaning leaves them, with counts."""
    counts = _labelled(field)
    for group in writings_of(field):
        counts[group.kept] += sum(counts.pop(other) for other in group.others)
    return counts


def cleaning_of(field: FieldFacts, options: ReadingOptions) -> LabelCleaning | None:
    """Return what the options change in a field of labels, if anything.

    Raises:
        InvalidSpec: the field has too many values to be one of labels.
    """
    if field.values is None:
        detail = f"The field {field.name!r} has texts and no labels. Name the one with labels."
        raise InvalidSpec(Problem("/label", "no_labels", detail))
    missing = missing_of(field) if options.drop_empty else ()
    merged = writings_of(field) if options.merge_labels else ()
    cleaning = LabelCleaning(
        label=field.name,
        dropped=sum(one.count for one in missing),
        missing=tuple(one.value for one in missing),
        merged={other: group.kept for group in merged for other in group.others},
    )
    return cleaning if cleaning.dropped or cleaning.merged else None


def cleaned(
    placed: Iterable[PlacedRecord], cleaning: LabelCleaning | None
) -> Iterator[PlacedRecord]:
    """Yield records with their labels as the cleaning writes them."""
    if cleaning is None:
        yield from placed
        return
    label, merged = cleaning.label, cleaning.merged
    for one in placed:
        value = one.record[label]
        if value in cleaning.missing:
            continue
        yield (
            one._replace(record=_with(one.record, label, merged[value])) if value in merged else one
        )


def _with(record: Mapping[str, str], field: str, value: str) -> Mapping[str, str]:
    return {**record, field: value}
