"""Samples of a task's metric other than accuracy, from one value per seed.

Values by item are not stored for these metrics, so what items add is bounded by each method's own
variance, as if two methods had no hard items in common: differences are shown later than with the
values, not more often falsely.
"""

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from adaptlab.measurements.results import Evaluation
from adaptlab.statistics.confusions import Counts, f1_scores
from adaptlab.statistics.samples import Sample
from adaptlab.statistics.scores import Scores
from adaptlab.text.metrics import LARGEST_PERPLEXITY, LOWER_IS_BETTER, OtherMetric, is_share

if TYPE_CHECKING:  # numpy is loaded on first use: a server that lists jobs saves 20 MB
    import numpy as np
    from numpy.typing import NDArray


def metric_sample(scores: Scores) -> Sample:
    """Return the sample of a row's metric; raises `ValueError` if it has none.

    Shares stay as they are. A perplexity becomes minus its logarithm: more is better, and a
    difference is in nats per token.
    """
    import numpy as np

    if scores.metric is None:
        raise ValueError(f"{scores.label} has no metric beside its accuracy.")
    values = [on_scale(scores.metric, value) for value in scores.measured]
    worst = 0.0 if is_share(scores.metric) else on_scale(scores.metric, LARGEST_PERPLEXITY)
    values += [worst] * len(scores.unscored)
    return Sample(
        values=np.asarray(values, dtype=np.float64),
        by_unit=np.empty(0),
        residual=0.0,
        items=scores.items,
        own_items=statistics.fmean(scores.item_variances) if scores.item_variances else 0.0,
    )


def on_scale(metric: OtherMetric, value: float) -> float:
    """Return a value on the scale on which differences are tested."""
    scaled = value if is_share(metric) else math.log(value)
    return -scaled if metric in LOWER_IS_BETTER else scaled


def variance_by_items(metric: OtherMetric, evaluation: Evaluation) -> float | None:
    """Return the variance of one seed's metric by the choice of items.

    Of macro-F1 it is the jackknife's over its counts; of token F1, a mean of values between 0 and
    1, the largest possible one, m (1 - m) / N, for N effective items (Bhatia and Davis 2000). It is
    None if it is not known: of perplexity without the losses of single items, and of macro-F1 over
    groups.
    """
    if metric == "token_f1" and evaluation.token_f1 is not None:
        mean = evaluation.token_f1
        return mean * (1 - mean) / (evaluation.effective_items or evaluation.total)
    if metric == "macro_f1" and evaluation.confusion is not None and not evaluation.clusters:
        return jackknife_variance(evaluation.confusion.counts)
    return None


def jackknife_variance(counts: Counts) -> float:
    """Return the jackknife variance of macro-F1 (Efron and Stein 1981).

    Items with the same right and given label have the same pseudo-value, so it takes one
    evaluation per cell of `counts`.
    """
    import numpy as np

    table = np.asarray(counts, dtype=np.float64)
    items = float(table.sum())
    if items < 2:
        return 1.0
    filled = [(int(i), int(j)) for i, j in np.argwhere(table > 0)]
    values = np.array([_without(table, *cell) for cell in filled])
    weights = np.array([table[cell] for cell in filled])
    mean = float(values @ weights) / items
    return (items - 1) / items * float(((values - mean) ** 2) @ weights)


def _without(table: "NDArray[np.float64]", right: int, given: int) -> float:
    """Return macro-F1 without one item of a cell."""
    less = table.copy()
    less[right, given] -= 1
    counts: Sequence[Sequence[float]] = less.tolist()
    scores = [score for score in f1_scores(counts) if score is not None]
    return math.fsum(scores) / len(scores) if scores else 0.0
