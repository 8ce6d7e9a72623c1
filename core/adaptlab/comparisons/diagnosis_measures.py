"""Measures of a diagnosis's evidence, with all of its thresholds."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from adaptlab.comparisons.base_learned import LEARNED_FROM
from adaptlab.comparisons.diagnosis_evidence import (
    BaseEvidence,
    Evidence,
    MethodEvidence,
    TrialEvidence,
)
from adaptlab.comparisons.diagnosis_next import HIGHEST_RATE
from adaptlab.statistics.failing import LEAST_GAIN

SUCCEEDS_FROM = 0.5
"""A method has learned the task at this share of the reference's gain over chance."""
HIGH_FROM = 0.25
"""A loss is high if this share of the way from the reference's loss to chance is left."""
STILL_FALLING = 0.1
"""Training is not at rest if the second half of the steps closed this share of the gap.

The gap is that between the loss half way and the lowest loss of the reference. The same share
decides whether a run of twice the steps changed anything.
"""
LEAST_SEEDS = 3
"""Seeds that have to agree before reach or generalisation is concluded."""
LOWER_EDGE = 0.05
UPPER_EDGE = 0.02
"""A sweep brackets an optimum if, for every seed, its ends are worse than the best rate inside.

They must be worse by these shares of the gap to the reference. Losses at rates that are all too low
differ by noise alone, so the lowest rate has to be clearly worse. The highest rate may be as good
as the best only if it is ten times as high and no spec can have a higher one: losses can be level
over several powers of ten below the rate at which a method begins to learn.
"""
FAR_ABOVE = 10.0
TWICE = 2
LARGER = 1.5
"""Another size is larger from this factor of the trained parameters on."""
EQUAL_BUDGET = 1.05
"""Another method has an equal budget up to this factor of the trained parameters."""


def loss_curves(method: MethodEvidence) -> dict[int, dict[float, float]]:
    """Return the lowest final loss by rate, for every seed that has one."""
    ended = sorted(
        (one.seed, one.learning_rate, one.final_loss)
        for one in method.trials
        if one.final_loss is not None
    )
    curves: dict[int, dict[float, float]] = {}
    for seed, of_seed in groupby(ended, key=lambda trial: trial[0]):
        curve: dict[float, float] = {}
        for _, rate, loss in of_seed:
            curve[rate] = min(loss, curve.get(rate, math.inf))
        curves[seed] = curve
    return curves


def _within(curve: Mapping[float, float]) -> tuple[float, float]:
    """Return the best rate inside the sweep, and its loss.

    Both are infinite if no rate is inside.
    """
    inside = sorted(curve)[1:-1]
    best = min(inside, key=lambda rate: curve[rate], default=math.inf)
    return best, curve.get(best, math.inf)


def is_bracketed_below(evidence: Evidence, curve: Mapping[float, float]) -> bool:
    """Return True if a seed's lowest rate is clearly worse than inside."""
    _, best = _within(curve)
    return curve[min(curve)] > best + LOWER_EDGE * _gap(evidence, best)


def is_bracketed_above(evidence: Evidence, curve: Mapping[float, float]) -> bool:
    """Return True if a seed's curve excludes a better, higher rate."""
    rate, best = _within(curve)
    rise = UPPER_EDGE * _gap(evidence, best)
    highest = max(curve)
    if curve[highest] > best + rise:
        return True
    # A sweep of rates at equal ratios misses its upper limit by a rounding error.
    is_highest = highest >= HIGHEST_RATE or math.isclose(highest, HIGHEST_RATE)
    return curve[highest] > best - rise and is_highest and highest >= FAR_ABOVE * rate


def _gap(evidence: Evidence, loss: float) -> float:
    assert evidence.reference is not None
    return max(0.0, loss - _best_loss(evidence.reference)) if math.isfinite(loss) else 0.0


def of_twice_the_steps(evidence: Evidence) -> list[MethodEvidence]:
    """Return constant trainings with twice, or half, the steps.

    They have at least twice, or at most half, the subject's steps. A longer training that ends with
    a higher loss had worse rates, so it does not show that more steps change nothing.
    """
    steps = evidence.subject.steps
    return [
        one
        for one in evidence.durations
        if one.schedule == "constant"
        and len(ended_seeds(one)) >= LEAST_SEEDS
        and (
            TWICE * one.steps <= steps
            or (one.steps >= TWICE * steps and _is_trained_as_well(evidence, one))
        )
    ]


def _is_trained_as_well(evidence: Evidence, other: MethodEvidence) -> bool:
    """Return True if the other's losses are not clearly higher."""
    loss = mean_best(evidence.subject)
    return mean_best(other) <= loss + STILL_FALLING * _gap(evidence, loss)


def steps_change_something(evidence: Evidence, other: MethodEvidence) -> bool:
    """Return True if the longer of two trainings has a clearly lower loss."""
    short, long = sorted((evidence.subject, other), key=lambda one: one.steps)
    loss = mean_best(short)
    return loss - mean_best(long) > STILL_FALLING * _gap(evidence, loss)


def larger_sizes(evidence: Evidence) -> list[MethodEvidence]:
    """Return the subject at clearly larger sizes."""
    least = LARGER * evidence.subject.parameters
    return [one for one in evidence.sizes if one.parameters >= least]


def larger_sizes_trained_as_well(evidence: Evidence) -> list[MethodEvidence]:
    """Return the larger sizes trained as much as the subject."""
    return [
        one
        for one in larger_sizes(evidence)
        if len(ended_seeds(one)) >= LEAST_SEEDS
        and one.steps >= evidence.subject.steps
        and _is_trained_as_well(evidence, one)
    ]


def others_that_succeed(
    evidence: Evidence, *, is_bound_alike: bool = False
) -> list[MethodEvidence]:
    """Return other methods that have learned the task at the subject's budget.

    If `is_bound_alike`, those with the same restriction as the subject; otherwise those without.
    """
    subject = evidence.subject
    return [
        one
        for one in evidence.others
        if 0 < one.parameters <= EQUAL_BUDGET * subject.parameters
        and has_learned(evidence, one.test_accuracy)
        and is_bound_alike == (one.restriction == subject.restriction != "")
    ]


def base_has_learned(base: BaseEvidence) -> bool:
    """Return True if the base is half way to 1 on its own tasks."""
    return base.accuracy - base.chance >= LEARNED_FROM * (1 - base.chance)


def seeds_of(method: MethodEvidence) -> set[int]:
    """Return the seeds that were run."""
    return {one.seed for one in method.trials}


def ended_seeds(method: MethodEvidence) -> set[int]:
    """Return the seeds with a trial that did not diverge."""
    return {one.seed for one in method.trials if one.final_loss is not None}


def mean_best(method: MethodEvidence) -> float:
    """Return the mean over seeds of the lowest final loss, in nats."""
    best = [loss_of(one) for one in best_of_seeds(method)]
    return math.fsum(best) / len(best) if best else math.inf


def has_learned(evidence: Evidence, accuracy: float) -> bool:
    """Return True if the accuracy has half of the reference's gain."""
    assert evidence.reference is not None
    chance = evidence.chance_accuracy
    return accuracy - chance >= SUCCEEDS_FROM * (evidence.reference.test_accuracy - chance)


def has_learned_partly(evidence: Evidence) -> bool:
    """Return True if the subject is clearly better than chance."""
    chance = evidence.chance_accuracy
    return evidence.subject.test_accuracy - chance >= LEAST_GAIN * (1 - chance)


def task_is_learnable(evidence: Evidence) -> bool:
    """Return True if the reference is at least half way from chance to 1."""
    assert evidence.reference is not None
    chance = evidence.chance_accuracy
    return evidence.reference.test_accuracy - chance >= SUCCEEDS_FROM * (1 - chance)


def succeeds(evidence: Evidence, one: TrialEvidence) -> bool:
    """Return True if one trial has learned the task on held-out items."""
    return one.accuracy is not None and has_learned(evidence, one.accuracy)


def is_luck(evidence: Evidence, good: Sequence[TrialEvidence]) -> bool:
    """Return True for a single successful trial whose training loss is high."""
    return len(good) == 1 and loss_of(good[0]) >= high_loss(evidence)


def _best_loss(method: MethodEvidence) -> float:
    losses = [one.final_loss for one in method.trials if one.final_loss is not None]
    return min(losses, default=0.0)


def high_loss(evidence: Evidence) -> float:
    """Return the loss, in nats, from which on a trial counts as high."""
    assert evidence.reference is not None
    best = _best_loss(evidence.reference)
    return best + HIGH_FROM * max(0.0, evidence.chance_loss - best)


def low_loss(evidence: Evidence) -> float:
    """Return the loss, in nats, below which training items are learned.

    Whole answers are then, in the geometric mean, at least half as likely as under the reference.
    With a loss that looks low per token, most answers of ten tokens can still be wrong.
    """
    assert evidence.reference is not None
    of_half = -math.log(SUCCEEDS_FROM) / evidence.counted_length
    learned = _best_loss(evidence.reference) + of_half
    return min(learned, high_loss(evidence))


def is_low(evidence: Evidence, one: TrialEvidence) -> bool:
    """Return True if one trial has learned its training items."""
    return one.final_loss is not None and one.final_loss < low_loss(evidence)


def best_of_seeds(method: MethodEvidence) -> list[TrialEvidence]:
    """Return each seed's trial with the lowest final loss."""
    best: dict[int, TrialEvidence] = {}
    for one in method.trials:
        if one.final_loss is not None and one.final_loss < loss_of(best.get(one.seed)):
            best[one.seed] = one
    return list(best.values())


def loss_of(one: TrialEvidence | None) -> float:
    """Return the final loss of a trial in nats, infinite if it has none."""
    return math.inf if one is None or one.final_loss is None else one.final_loss


def lowest(trials: Sequence[TrialEvidence]) -> float:
    """Return the lowest final loss of the trials, in nats."""
    return min(loss_of(one) for one in trials)


def still_falls(evidence: Evidence, one: TrialEvidence) -> bool:
    """Return True if a trial was not at rest in the second half of its steps."""
    if one.half_loss is None or one.final_loss is None:
        return False
    assert evidence.reference is not None
    left = one.half_loss - _best_loss(evidence.reference)
    return one.half_loss - one.final_loss > STILL_FALLING * max(0.0, left)
