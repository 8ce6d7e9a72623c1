"""Drift from the base model on neutral texts, from statistics by passage."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adaptlab.comparisons.retention import paired_tasks
from adaptlab.comparisons.task_retention import LEVEL, TextDrift
from adaptlab.plugins.metric import is_measured_against_base
from adaptlab.runs.events import Evaluation
from adaptlab.runs.item_statistics import from_text, unpacked
from adaptlab.statistics.samples import Sample, clustered, residual_of
from adaptlab.statistics.spread import spread
from adaptlab.statistics.typical import typical_limits

BITS = 1 / math.log(2)
DIVERGENCE, NATS, TOKENS, BYTES = range(4)

Columns = NDArray[np.float64]


def drifts(evaluations: Sequence[Evaluation], level: float = LEVEL) -> tuple[TextDrift, ...]:
    """Return the drift on every dataset of neutral texts.

    Args:
        evaluations: test scores with statistics by passage, adapted and of the base alone.
        level: the confidence of the limits.
    """
    return tuple(_drift(text, level) for text in neutral_texts(evaluations))


@dataclass(frozen=True, eq=False)
class PassageStatistics:
    """Statistics of passages by seed, adapted and of the base alone.

    `after` and `before` are [seed, passage, statistic].
    """

    task: Mapping[str, object]
    after: Columns
    before: Columns
    seeds: tuple[int, ...]
    clusters: tuple[int, ...]

    def kl(self) -> Sample:
        """Return KL(base || adapted) in nats per token, by seed."""
        return self._ratio(self.after[..., DIVERGENCE], TOKENS)

    def bits(self) -> Sample:
        """Return what is added to the base's bits per byte, by seed."""
        return self._ratio(BITS * (self.after[..., NATS] - self.before[..., NATS]), BYTES)

    def _ratio(self, sums: Columns, per: int) -> Sample:
        return _ratio(sums, self.after[0, :, per], self.clusters)


def neutral_texts(evaluations: Sequence[Evaluation]) -> Iterator[PassageStatistics]:
    """Yield the datasets of neutral texts that were scored both ways."""
    for task, pairs in paired_tasks(evaluations):
        if not is_measured_against_base(task.get("metric")):
            continue
        read = [(_columns(one, task), _columns(base, task)) for one, base in pairs]
        known = [(one, base) for one, base in read if one is not None and base is not None]
        if len(known) < len(pairs):
            continue
        yield PassageStatistics(
            task=task,
            after=np.stack([one for one, _ in known]),
            before=np.stack([base for _, base in known]),
            seeds=tuple(one.seed for one, _ in pairs),
            clusters=pairs[0][0].clusters,
        )


def _columns(one: Evaluation, task: Mapping[str, object]) -> Columns | None:
    text = one.statistics_of(str(task.get("metric")))
    return None if text is None else unpacked(from_text(text), one.total, 4)


def _drift(text: PassageStatistics, level: float) -> TextDrift:
    kl, bits, before = text.kl(), text.bits(), text.before
    kl_limits, bits_limits = (
        typical_limits(one.values, one.of_items, one.units, level) for one in (kl, bits)
    )
    size = float(before[0, :, BYTES].sum())
    return TextDrift(
        task=dict(text.task),
        kl=kl.mean,
        kl_low=max(0.0, kl_limits[0]),
        kl_high=kl_limits[1],
        bits_base=BITS * float(before[..., NATS].sum()) / (len(before) * size),
        bits_change=bits.mean,
        bits_change_low=bits_limits[0],
        bits_change_high=bits_limits[1],
        seeds=text.seeds,
        kl_by_seed=tuple(kl.values.tolist()),
        bits_by_seed=tuple(bits.values.tolist()),
        passages=before.shape[1],
        clusters=len(set(text.clusters)) or before.shape[1],
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
