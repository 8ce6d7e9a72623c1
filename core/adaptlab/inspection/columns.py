"""Figures of one field over all records, from hashes of its values."""

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adaptlab.inspection.token_counts import TokenCounter
from adaptlab.records.buckets import normalised
from adaptlab.records.conversations import without_answer
from adaptlab.values import Value

_MOST_REMEMBERED = 1000
"""Limit of the values whose normalised form is remembered: those of labels, above all."""

_EMPTY_FORM = hash("")
_WITH_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?")
"""A number with a decimal comma, perhaps with dots between thousands."""


class LengthSpread(Value):
    """Lengths of the values of a field."""

    least: int
    median: int
    percentile_95: int
    most: int


@dataclass(frozen=True, slots=True)
class Found:
    """Values of a column that are nearly equal.

    Attributes:
        count: values that are nearly equal to an earlier one.
        records: records with a value that is nearly equal to another one.
        places: two records for each group of such values, counted from 0.
    """

    count: int
    records: int
    places: list[tuple[int, int]]


class Column:
    """The values of one field: 28 bytes each."""

    def __init__(self, counter: TokenCounter | None = None) -> None:
        # A value's hash is that of Python, whose key differs in every process; among two million
        # values the probability of one collision is 1e-7.
        self.values = array("q")
        self.forms = array("q")
        self._bytes = array("L")
        self._tokens = counter and counter.column()
        self._are_numbers = True
        self._have_commas, self._has_comma = True, False
        self._remembered: dict[str, int] = {}

    def add(self, value: str) -> None:
        """Add the value of one record."""
        self.values.append(hash(value))
        self.forms.append(self._form(value))
        self._bytes.append(len(value) if value.isascii() else len(value.encode()))
        if self._tokens is not None:
            self._tokens.add(value)
        if self._are_numbers and not _is_number(value):
            self._are_numbers = False
        if self._have_commas and value:
            self._have_commas = _WITH_COMMA.fullmatch(value.strip()) is not None
            self._has_comma = self._has_comma or "," in value

    @property
    def has_decimal_commas(self) -> bool:
        """True if all values are numbers, some with a decimal comma."""
        return self._have_commas and self._has_comma

    @property
    def distinct(self) -> int:
        """The number of different values."""
        return len(np.unique(self.values))

    @property
    def bytes(self) -> LengthSpread:
        """Lengths of the values in bytes."""
        return _spread(self._bytes)

    @property
    def median(self) -> int:
        """Median length of the values in bytes."""
        return self.bytes.median

    @property
    def tokens(self) -> LengthSpread | None:
        """Lengths of the values in tokens, None without a tokeniser."""
        return None if self._tokens is None else _spread(self._tokens.lengths())

    @property
    def is_empty_form(self) -> int:
        """The form that empty values have."""
        return _EMPTY_FORM

    def nearly_equal(self) -> Found:
        """Return the nearly equal values, except numbers and empty ones."""
        if self._are_numbers or self.has_decimal_commas:
            return Found(0, 0, [])
        return pairs_of(self.forms, self.values, _EMPTY_FORM)

    def _form(self, value: str) -> int:
        form = self._remembered.get(value)
        if form is None:
            form = hash(normalised(without_answer(value)))
            if len(self._remembered) < _MOST_REMEMBERED:
                self._remembered[value] = form
        return form


def pairs_of(forms: Sequence[int], values: Sequence[int], ignored: int) -> Found:
    """Return the records that have equal forms and different values.

    Args:
        forms: one number per record.
        values: another one per record.
        ignored: a form that is left out.
    """
    both = np.stack([np.asarray(forms, np.int64), np.asarray(values, np.int64)], axis=1)
    pairs, first = np.unique(both, axis=0, return_index=True)  # sorted by form
    first = first[pairs[:, 0] != ignored]
    pairs = pairs[pairs[:, 0] != ignored]
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=pairs[:1, 0] - 1))
    ends = np.append(starts[1:], len(pairs))
    several = ends - starts > 1
    groups = [first[start:end] for start, end in zip(starts[several], ends[several], strict=True)]
    places = sorted((int(min(group)), int(sorted(group)[1])) for group in groups)
    return Found(
        count=sum(len(group) - 1 for group in groups),
        records=int(np.isin(both[:, 0], pairs[starts[several], 0]).sum()),
        places=places,
    )


def differing(
    texts: Sequence[int], answers: Sequence[int], missing: Sequence[int] = ()
) -> tuple[int, float]:
    """Count texts with several answers; return the largest right share too.

    A model that gives one answer per text is right at most for the most frequent answer of each.
    Records whose answer is `missing` do not count.
    """
    both = np.stack([np.asarray(texts, np.int64), np.asarray(answers, np.int64)], axis=1)
    both = both[~np.isin(both[:, 1], np.asarray(missing, np.int64))]
    if not len(both):
        return 0, 1.0
    pairs, counts = np.unique(both, axis=0, return_counts=True)  # sorted by text
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=pairs[:1, 0] - 1))
    answers_per_text = np.diff(np.append(starts, len(pairs)))
    most = np.maximum.reduceat(counts, starts)
    return int((answers_per_text > 1).sum()), float(most.sum() / counts.sum())


def _spread(lengths: Sequence[int]) -> LengthSpread:
    quantiles = np.quantile(np.asarray(lengths), [0, 0.5, 0.95, 1], method="higher")
    least, median, percentile_95, most = map(int, quantiles)
    return LengthSpread(least=least, median=median, percentile_95=percentile_95, most=most)


def _is_number(value: str) -> bool:
    try:
        float(value or "0")
    except ValueError:
        return False
    return True
