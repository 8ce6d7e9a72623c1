"""Rules that assign records to splits."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, get_args

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.records.buckets import BUCKETS, bucket_of
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.record import FieldName, Record
from adaptlab.values import Value

Split = Literal["train", "validation", "test"]
EVERY_SPLIT: tuple[Split, ...] = get_args(Split)

NAMES_OF_SPLITS: Mapping[str, Split] = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}
"""The values of a field that name a split, without regard to case."""

Share = Annotated[float, Field(ge=1 / BUCKETS, le=0.9)]


class SplitCounts(Value):
    """The number of records in each split."""

    train: int
    validation: int
    test: int


class SplitsByValue(Value):
    """Shares of the records, by a stable hash of one field.

    Records whose values are equal, or differ only in case, spaces and punctuation, are in the same
    split. `by` is the field, by default the first of the prompt. Shares are kept to a thousandth.
    """

    validation: Share = 0.1
    test: Share = 0.2
    by: FieldName | None = None

    def split_of(self, record: Record) -> Split:
        """Return the split of a record; `by` must be set."""
        assert self.by is not None
        return self._of_bucket(bucket_of(record[self.by]))

    def counts(self, facts: RecordsFacts) -> SplitCounts:
        """Return the number of records in each split."""
        field = facts.field(self.by or "")
        counts: dict[Split, int] = dict.fromkeys(EVERY_SPLIT, 0)
        for bucket, records in enumerate(field.buckets if field else ()):
            counts[self._of_bucket(bucket)] += records
        return SplitCounts.model_validate(counts)

    def problems(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield what the dataset does not allow, with pointers below the rule."""
        if self.validation + self.test > 0.95:
            detail = (
                f"Validation and test take {self.validation + self.test:.1%} of the records, and "
                "training needs at least 5 %. Lower one of them."
            )
            yield Problem("/test", "no_training_items", detail)
        if facts.field(self.by or "") is None:
            yield unknown_field("/by", self.by or "", facts)

    def _of_bucket(self, bucket: int) -> Split:
        test = round(self.test * BUCKETS)
        if bucket < test:
            return "test"
        return "validation" if bucket < test + round(self.validation * BUCKETS) else "train"


class SplitsByField(Value):
    """Splits that a field names: train, validation (or dev), test."""

    field: FieldName

    def split_of(self, record: Record) -> Split:
        """Return the split of a record."""
        return NAMES_OF_SPLITS[record[self.field].strip().lower()]

    def counts(self, facts: RecordsFacts) -> SplitCounts:
        """Return the number of records in each split."""
        field = facts.field(self.field)
        counts: dict[Split, int] = dict.fromkeys(EVERY_SPLIT, 0)
        for entry in (field.values if field else None) or ():
            split = NAMES_OF_SPLITS.get(entry.value.strip().lower())
            if split is not None:
                counts[split] += entry.count
        return SplitCounts.model_validate(counts)

    def problems(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield what the dataset does not allow, with pointers below the rule."""
        field = facts.field(self.field)
        if field is None:
            yield unknown_field("/field", self.field, facts)
            return
        values = None if field.values is None else [entry.value for entry in field.values]
        others = [v for v in values or () if v.strip().lower() not in NAMES_OF_SPLITS]
        if values is None or others:
            named = "many others" if values is None else ", ".join(map(repr, others[:4]))
            detail = (
                f"The field {self.field!r} does not name splits only: it has {named}. Its values "
                "must be train, validation and test."
            )
            yield Problem("/field", "not_a_split", detail, allowed=tuple(NAMES_OF_SPLITS))


SplitRule = SplitsByField | SplitsByValue


def unknown_field(pointer: str, name: str, facts: RecordsFacts) -> Problem:
    """Return the problem of a field that the dataset lacks."""
    names = tuple(facts.names())
    detail = f"{facts.name!r} has no field {name!r}. Its fields: {', '.join(names)}."
    return Problem(pointer, "unknown_field", detail, allowed=names)
