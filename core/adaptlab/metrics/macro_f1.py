"""Macro-F1: the mean F1 score of all labels, however many items they have."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import Counts, Metric, Needs, registered
from adaptlab.records.facts import MOST_CONFUSED


@registered
class MacroF1(Metric):
    """The mean F1 score of all labels that are right or given.

    An item's statistics are the places of its right and of its given label. What is summed are
    hits, right and given items of every label. Without some items, a label that no other item has
    keeps its score: the labels stay those of all items, or a label's only item would count as much
    as the rest of them.
    """

    name: ClassVar[str] = "macro_f1"
    title: ClassVar[str] = "Macro-F1"
    meaning: ClassVar[str] = (
        "the mean F1 score of all labels, each of the same weight, for tasks with 2 to 32 labels"
    )
    needs: ClassVar[Needs] = "labels"
    learnable_from: ClassVar[float] = 0.5
    columns: ClassVar[int] = 2

    def summed(self, statistics: NDArray[np.float64]) -> NDArray[np.float64]:
        labels = int(statistics.max(initial=0)) + 1
        if labels > MOST_CONFUSED:
            raise ValueError(
                f"There are {labels:,} labels. Macro-F1 is computed for at most {MOST_CONFUSED}."
            )
        right, given = statistics.astype(np.int64).T
        every = np.eye(labels)
        return np.concatenate((every[right] * every[given], every[right], every[given]), axis=1)

    def of_sums(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.nanmean(_scores(sums), axis=-1)

    def without(
        self, total: NDArray[np.float64], parts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        left, whole = _scores(total - parts), _scores(total)
        return np.nanmean(np.where(np.isnan(left), whole, left), axis=-1)

    def of_earlier(
        self, task: Mapping[str, object], confusion: Counts | None, loss: float | None
    ) -> float | None:
        return None if confusion is None else macro_f1(confusion)


def f1_scores(counts: Counts) -> tuple[float | None, ...]:
    """Return the F1 score of every label, 2·hits / (right + given).

    It is the harmonic mean of precision and recall. It is 0 for a label that is right or given but
    never both, and None for one that is neither, for which it is not defined.
    """
    right = [math.fsum(row) for row in counts]
    given = [math.fsum(column) for column in zip(*counts, strict=True)]
    return tuple(
        2 * row[place] / (right[place] + given[place]) if right[place] + given[place] else None
        for place, row in enumerate(counts)
    )


def macro_f1(counts: Counts) -> float:
    """Return the mean F1 score of all labels that are right or given.

    Every label has the same weight, however many items it has. A label that no item has and no
    answer gives is left out, as by `f1_score(average="macro")` of scikit-learn.

    Raises `ValueError` if there are no items.
    """
    scores = [score for score in f1_scores(counts) if score is not None]
    if not scores:
        raise ValueError("There are no items, so no F1 score is defined. Count at least one.")
    return math.fsum(scores) / len(scores)


def _scores(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the F1 score of every label, NaN of one that no item has."""
    hits, right, given = np.split(sums, 3, axis=-1)
    either = right + given
    return np.divide(2 * hits, either, out=np.full_like(hits, np.nan), where=either > 0)
