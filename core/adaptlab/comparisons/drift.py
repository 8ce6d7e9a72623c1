"""Drift from the base model on neutral texts, from statistics by passage."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from adaptlab.comparisons.retention import paired_tasks
from adaptlab.comparisons.task_retention import LEVEL, TextDrift
from adaptlab.plugins.metric import is_measured_against_base
from adaptlab.runs.events import Evaluation
from adaptlab.runs.item_statistics import from_text, unpacked
from adaptlab.statistics.samples import Sample, clustered, residual_of
from adaptlab.statistics.spread import spread
from adaptlab.statistics.typical import Limits, typical_limits

BITS = 1 / math.log(2)
DIVERGENCE, NATS, TOKENS, BYTES = range(4)

Columns = NDArray[np.float64]


def drifts(evaluations: Sequence[Evaluation], level: float = LEVEL) -> tuple[TextDrift, ...]:
    """Return the drift on every dataset of neutral texts.

    Args:
        evaluations: test scores with statistics by passage, adapted and of the base alone.
        level: the confidence of the limits.
    """
    return tuple(_drifts(evaluations, level))


def _drifts(evaluations: Sequence[Evaluation], level: float) -> Iterator[TextDrift]:
    for task, pairs in paired_tasks(evaluations):
        read = [(_columns(one, task), _columns(base, task)) for one, base in pairs]
        known = [(one, base) for one, base in read if one is not None and base is not None]
        if not is_measured_against_base(task.get("metric")) or len(known) < len(pairs):
            continue
        after = np.stack([one for one, _ in known])
        before = np.stack([base for _, base in known])
        clusters = pairs[0][0].clusters
        seeds = tuple(one.seed for one, _ in pairs)
        yield _drift(task, after, before, clusters, seeds, level)


def _columns(one: Evaluation, task: Mapping[str, object]) -> Columns | None:
    text = one.statistics_of(str(task.get("metric")))
    return None if text is None else unpacked(from_text(text), one.total, 4)


def _drift(
    task: Mapping[str, object],
    after: Columns,
    before: Columns,
    clusters: tuple[int, ...],
    seeds: tuple[int, ...],
    level: float,
) -> TextDrift:
    def limited(sums: Callable[[Columns], Columns], per: int) -> tuple[Sample, Limits]:
        sample = _ratio(sums(after), after[0, :, per], clusters)
        limits = typical_limits(sample.values, sample.of_items, sample.units, level)
        return sample, limits

    kl, kl_limits = limited(lambda one: one[..., DIVERGENCE], TOKENS)
    bits, bits_limits = limited(lambda one: BITS * (one[..., NATS] - before[..., NATS]), BYTES)
    size = float(before[0, :, BYTES].sum())
    return TextDrift(
        task=dict(task),
        kl=kl.mean,
        kl_low=max(0.0, kl_limits[0]),
        kl_high=kl_limits[1],
        bits_base=BITS * float(before[..., NATS].sum()) / (len(before) * size),
        bits_change=bits.mean,
        bits_change_low=bits_limits[0],
        bits_change_high=bits_limits[1],
        seeds=seeds,
        kl_by_seed=tuple(kl.values.tolist()),
        bits_by_seed=tuple(bits.values.tolist()),
        passages=after.shape[1],
        clusters=len(set(clusters)) or after.shape[1],
        bytes=int(size),
        level=level,
    )


def _ratio(sums: Columns, sizes: NDArray[np.float64], clusters: tuple[int, ...]) -> Sample:
    """Return sums over sizes by seed, with linear parts by passage or cluster.

    `sums` are [seed, passage] and `sizes` [passage]. Passages of unlike sizes weigh by them.
    """
    values = sums.sum(axis=1) / sizes.sum()
    mean_size = sizes.mean()
    by_passage = values[:, None] + (sums - values[:, None] * sizes) / mean_size
    units = clustered(by_passage, clusters) if clusters else by_passage
    return Sample(
        values=values,
        by_unit=units.mean(axis=0),
        residual=residual_of(spread(units)),
        items=sums.shape[1],
    )
