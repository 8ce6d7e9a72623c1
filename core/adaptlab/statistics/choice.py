"""The score of the best method, corrected for having been chosen."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from adaptlab.interval import Fraction, Interval
from adaptlab.statistics.counts import Counting, counts
from adaptlab.statistics.intervals import mean_interval
from adaptlab.statistics.scores import Scores
from adaptlab.values import Value

FOLDS = 5
"""Parts of the test items: a choice is made on four of them and scored on the fifth."""


class ChosenBest(Value):
    """The best of several methods, with a score corrected for the choice.

    `score.mean` is the measured mean, which is too high by chance because the method was chosen for
    it. `corrected` is the mean score on seeds and items that were not used for the choice. The
    limits of `score` hold for all candidates together, at confidence 1 - (1 - level) / k, and
    therefore for the chosen one at confidence `level`; they reach down to `corrected`.
    """

    method: str
    label: str
    budget: int | None
    candidates: Annotated[int, Field(ge=1)]
    corrected: Fraction
    score: Interval
    level: Annotated[float, Field(gt=0, lt=1)]


def chosen_best(
    rows: Sequence[Scores], level: float = 0.95, counting: Counting = counts
) -> ChosenBest:
    """Return the row with the highest mean score, the first of equal ones.

    Cross-validation over seeds and items estimates by how much the score is too high. For each seed
    and each fifth of the items, the best row by the other seeds and items is scored there; the mean
    of these scores is subtracted from that of the best row on the same seeds. Seeds are those that
    all rows share; if fewer than two are shared, choices are made by other items only.

    Raises `ValueError` for no rows and for rows with different numbers of items.
    """
    if not rows or len({row.items for row in rows}) > 1:
        items = sorted({row.items for row in rows})
        raise ValueError(f"Give rows that were scored on the same items, not on {items}.")
    means = [float(counting(row, row.seeds).accuracies.mean()) for row in rows]
    best = rows[means.index(max(means))]
    level_of_all = 1 - (1 - level) / len(rows)
    score = mean_interval(best, level_of_all, counting)
    corrected = score.mean
    if len(rows) > 1:
        corrected = min(1.0, max(0.0, score.mean - _optimism(rows, rows.index(best))))
    widened = {"low": min(score.low, corrected), "high": max(score.high, corrected)}
    return ChosenBest(
        method=best.method,
        label=best.label,
        budget=best.budget,
        candidates=len(rows),
        corrected=corrected,
        score=score.model_copy(update=widened),
        level=level,
    )


def _optimism(rows: Sequence[Scores], best: int) -> float:
    """Return by how much the best row's score is too high.

    It is its mean score on shared seeds minus that of choices by other outcomes.
    """
    shared = [seed for seed in rows[0].seeds if all(seed in row.seeds for row in rows)]
    if len(shared) < 2:
        per_item = np.stack([row.matrix().mean(axis=0) for row in rows])[:, None, :]
    else:
        per_item = np.stack([row.matrix(shared) for row in rows])
    items = rows[0].items
    folds = min(FOLDS, items)
    parts = [per_item[:, :, fold::folds].sum(axis=2) for fold in range(folds)]
    sums = np.stack(parts, axis=2)  # [row, seed, fold]
    return float(sums[best].sum()) / (sums.shape[1] * items) - _mean_of_choices(sums, items)


def _mean_of_choices(sums: NDArray[np.float64], items: int) -> float:
    _, seeds, folds = sums.shape
    total = 0.0
    for seed in range(seeds):
        for fold in range(folds):
            elsewhere = sums[:, :, [one for one in range(folds) if one != fold] or [fold]]
            others = [one for one in range(seeds) if one != seed] or [seed]
            chosen = int(elsewhere[:, others].sum(axis=(1, 2)).argmax())
            total += float(sums[chosen, seed, fold])
    return total / (seeds * items)
