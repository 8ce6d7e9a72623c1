"""The share of an old skill that an adaptation leaves, by seed and item.

That of seed s is r_s = (a_s - f) / (b_s - f), for the shares of right items a_s with the adaptation
and b_s of the base model alone on the same items, and the floor f. Its linear part by item is r_s +
(a_si - a_s - r_s (b_si - b_s)) / (b_s - f), whose mean is r_s (delta method: Cochran, Sampling
Techniques, 1977, section 6.4), so items that both get right add nothing. The base clears its floor
by a margin, so the denominator is far from 0.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from adaptlab.statistics.failing import LEAST_GAIN, Floor
from adaptlab.statistics.limits import clopper_pearson
from adaptlab.statistics.samples import UNSEEN_ITEMS, Sample, clustered, residual_of
from adaptlab.statistics.scores import Outcomes
from adaptlab.statistics.spread import spread
from adaptlab.statistics.typical import Limits, typical_limits

REFUSED = 0.05
"""The chance that a base model without the skill is taken for one with it."""


def least_skill(floor: Floor) -> float:
    """Return the accuracy that a base model is shown to exceed, or is refused."""
    return floor.accuracy + LEAST_GAIN * (1 - floor.accuracy)


def shown_accuracy(right: float, items: float) -> float:
    """Return the lower limit of an accuracy, one-sided at 95 %.

    `items` are those that count: fewer than all if they are in groups.
    """
    return clopper_pearson(right, items, 1 - 2 * REFUSED)[0]


def retained(
    attached: Outcomes, base: Outcomes, floor: float, clusters: tuple[int, ...] = ()
) -> Sample:
    """Return the retention of every seed as a sample.

    Args:
        attached: outcomes of the adapted models, [seed, item].
        base: outcomes of the base model that each seed starts from, [seed, item].
        floor: the accuracy that needs no skill, below that of every base.
        clusters: the number of each item's group, from 0; empty if items are independent.

    Raises:
        ValueError: a base does not exceed the floor.
    """
    above = base.mean(axis=1, keepdims=True) - floor
    if not (above > 0).all():
        raise ValueError("A base model does not exceed the floor, so nothing can be retained.")
    ratio = (attached.mean(axis=1, keepdims=True) - floor) / above
    by_item: NDArray[np.float64] = (attached - floor - ratio * (base - floor)) / above + ratio
    units = clustered(by_item, clusters) if clusters else by_item
    return Sample(
        values=ratio[:, 0],
        by_unit=units.mean(axis=0),
        residual=residual_of(spread(units)),
        items=attached.shape[1],
    )


def pooled(samples: Sequence[Sample]) -> Sample:
    """Return the mean over tasks of the same seeds, with the items of all.

    Tasks have their own items, so that their parts of the variance add up. Units are laid side by
    side, each as far from its task's mean as it moves the mean over all tasks.
    """
    if len(samples) == 1:
        return samples[0]
    values = np.mean([one.values for one in samples], axis=0)
    units = sum(one.units for one in samples)
    scale = [units / (one.units * len(samples)) for one in samples]
    by_unit = [
        float(values.mean()) + by * (one.by_unit - one.by_unit.mean())
        for by, one in zip(scale, samples, strict=True)
    ]
    residual = sum(
        by**2 * one.residual * one.units / units for by, one in zip(scale, samples, strict=True)
    )
    return replace(
        samples[0],
        values=values,
        by_unit=np.concatenate(by_unit),
        residual=residual,
        items=sum(one.items for one in samples),
    )


def retention_limits(sample: Sample, base: float, floor: float, level: float) -> Limits:
    """Return the limits of the retention of a typical seed on new items.

    `base` is the mean accuracy of the base models. Items on which adapted and base models differ
    may be unseen, as in `samples.item_variance`.
    """
    unseen = (UNSEEN_ITEMS / sample.items / (base - floor)) ** 2
    low, high = typical_limits(sample.values, sample.of_items + unseen, sample.units, level)
    mean = sample.mean
    return min(low, mean), max(high, mean)
