"""Measures of a diagnosis's evidence, with all of its thresholds."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import fmean

from adaptlab.comparisons.base_learned import LEARNED_FROM
from adaptlab.comparisons.diagnosis_evidence import (
    BaseEvidence,
    DiagnosisEvidence,
    MethodEvidence,
    TrialEvidence,
)
from adaptlab.plugins.metric import metric_named

HIGHEST_RATE = 10.0
"""The highest learning rate that a spec accepts."""
SUCCEEDS_FROM = 0.5
"""A method has learned the task at this share of the best method's gain over the floor.

The best method has learned it at this share of the way from the floor to 1.
"""
LEARNS_A_PART_FROM = 0.1
"""A method has learned a part of the task at this share of the way from the floor to 1."""
HIGH_FROM = 0.25
"""A loss is high if this share of the way from the best loss to chance is left."""
STILL_RISING = 0.1
"""More steps still help if twice as many add this share of the best method's gain."""
STILL_FALLING = 0.1
"""A training loss still falls if doubling the steps closes this share of the gap to the best one.

A loss counts only if it is this share of the way below chance. Losses near or above chance are
noise that never comes to rest.
"""
EDGE = 0.02
"""The loss at an end of the sweep is the lowest by this share of the gap to the best one."""
LEAST_SEEDS = 3
"""Seeds that have to agree before reach or generalisation is concluded."""
DECADES = 3
"""Powers of ten that the learning rates have to span."""
MOST_BETWEEN = 10.0
"""Neighbouring learning rates are at most this factor apart."""
ROUNDING = 1.01
TWICE = 2
LARGER = 1.5
"""Another size is larger from this factor of the trained parameters on."""
EQUAL_BUDGET = 1.05
"""Another method has an equal budget up to this factor of the trained parameters."""


def best_known(evidence: DiagnosisEvidence) -> MethodEvidence:
    """Return the method that scores best on the task, of any kind."""
    known = (evidence.reference, evidence.pinned, *evidence.others, *evidence.sizes)
    return max(
        (evidence.subject, *evidence.durations, *(one for one in known if one is not None)),
        key=lambda one: one.score,
    )


def task_is_learnable(evidence: DiagnosisEvidence) -> bool:
    """Return True if some method is half way from the floor to 1.

    By a metric whose best value few tasks allow, a part of the way is enough.
    """
    floor, metric = evidence.floor, metric_named(evidence.metric)
    way = SUCCEEDS_FROM if metric is None else metric.learnable_from
    return best_known(evidence).score - floor >= way * (1 - floor)


def success_bar(evidence: DiagnosisEvidence) -> float:
    """Return the score from which a method has learned the task."""
    floor = evidence.floor
    return floor + SUCCEEDS_FROM * (best_known(evidence).score - floor)


def has_learned(evidence: DiagnosisEvidence, score: float) -> bool:
    """Return True if a method of this score has learned the task."""
    return task_is_learnable(evidence) and score >= success_bar(evidence)


def has_learned_partly(evidence: DiagnosisEvidence) -> bool:
    """Return True if the subject is clearly better than the floor."""
    floor = evidence.floor
    return evidence.subject.score - floor >= LEARNS_A_PART_FROM * (1 - floor)


def successes(
    evidence: DiagnosisEvidence, methods: Iterable[MethodEvidence]
) -> list[TrialEvidence]:
    """Return the trials that have learned the task on held-out items."""
    bar = success_bar(evidence) if task_is_learnable(evidence) else math.inf
    every = (trial for method in methods for trial in method.trials)
    return [one for one in every if one.score is not None and one.score >= bar]


def is_luck(evidence: DiagnosisEvidence, good: Sequence[TrialEvidence]) -> bool:
    """Return True for a single successful trial whose training loss is high."""
    return len(good) == 1 and loss_of(good[0]) >= high_loss(evidence)


def rates_of(method: MethodEvidence) -> list[float]:
    """Return the learning rates that were tried, in ascending order."""
    return sorted({trial.learning_rate for trial in method.trials})


def is_widely_swept(method: MethodEvidence) -> bool:
    """Return True if no rate that was left out could be the right one.

    The rates span three powers of ten without a gap, and go as high as is usual for the method. A
    rate at which every trial diverged is one that was tried. Methods that have one usual rate do
    not depend on it.
    """
    rates = rates_of(method)
    if has_one_rate(method):
        return True
    if not rates or rates[-1] * ROUNDING < 10.0**DECADES * rates[0]:
        return False
    usual = 0.0 if method.usual_rates is None else method.usual_rates[1]
    is_high = rates[-1] * ROUNDING >= usual or _diverges_at(method, rates[-1])
    return is_high and all(b <= ROUNDING * MOST_BETWEEN * a for a, b in pairwise(rates))


def has_one_rate(method: MethodEvidence) -> bool:
    """Return True if the method has a single usual rate, as searches have."""
    return method.usual_rates is not None and method.usual_rates[0] == method.usual_rates[1]


def _diverges_at(method: MethodEvidence, rate: float) -> bool:
    return all(one.final_loss is None for one in method.trials if one.learning_rate == rate)


def is_measured(method: MethodEvidence) -> bool:
    """Return True if rates and seeds are enough to conclude from failing."""
    return len(ended_seeds(method)) >= LEAST_SEEDS and is_widely_swept(method)


def longest(evidence: DiagnosisEvidence) -> MethodEvidence | None:
    """Return the longest training of the configuration from which to conclude.

    It has at least twice the steps of another one. None if there is none.
    """
    measured = [one for one in evidence.same if is_measured(one)]
    shortest = min(one.steps for one in evidence.same)
    long = [one for one in measured if one.steps >= TWICE * shortest]
    return max(long, key=lambda one: one.steps, default=None)


def rises_with_steps(evidence: DiagnosisEvidence) -> tuple[MethodEvidence, MethodEvidence] | None:
    """Return a shorter and the longest training if held-out scores still rise."""
    if (long := longest(evidence)) is None:
        return None
    short = [one for one in evidence.same if TWICE * one.steps <= long.steps]
    before = max(short, key=mean_best)
    gain = best_known(evidence).score - evidence.floor
    is_rising = mean_best(long) - mean_best(before) > STILL_RISING * gain
    return (before, long) if is_rising else None


def mean_best(method: MethodEvidence) -> float:
    """Return the mean over seeds of the best held-out score."""
    best: dict[int, float] = {}
    for one in method.trials:
        best[one.seed] = max(best.get(one.seed, 0.0), one.score or 0.0)
    return math.fsum(best.values()) / len(best) if best else 0.0


def falls_with_steps(evidence: DiagnosisEvidence) -> tuple[float, float] | None:
    """Return an earlier and the last training loss if they still fall.

    Both are means over the seeds of the longest training, in nats. Held-out answers of many tokens
    can stay wrong for a long time while the loss falls.
    """
    if (long := longest(evidence)) is None:
        return None
    shorter = [one for one in evidence.same if TWICE * one.steps <= long.steps and ended_seeds(one)]
    halves = [one.half_loss for one in best_of_seeds(long) if one.half_loss is not None]
    before = [mean_loss(one) for one in shorter] + ([fmean(halves)] if halves else [])
    last = mean_loss(long)
    falling = [loss for loss in before if loss - last > STILL_FALLING * _gap(evidence, loss)]
    return (max(falling), last) if falling and _is_below_chance(evidence, last) else None


def best_rate_at_end(evidence: DiagnosisEvidence) -> float | None:
    """Return the best rate of the longest training if it is an end.

    It has the lowest mean loss over seeds, below chance. None at the highest rate of a spec, and
    where a higher rate diverges.
    """
    if (long := longest(evidence)) is None:
        return None
    losses = {rate: mean_loss(long, rate) for rate in rates_of(long)}
    ended = [rate for rate, loss in losses.items() if math.isfinite(loss)]
    best = min(ended, key=lambda rate: losses[rate])
    inside = min((losses[rate] for rate in ended[1:-1]), default=math.inf)
    is_end = best == ended[0] or (best == max(losses) and best * ROUNDING < HIGHEST_RATE)
    is_clear = inside - losses[best] > EDGE * _gap(evidence, inside)
    return best if is_end and is_clear and _is_below_chance(evidence, losses[best]) else None


def mean_loss(method: MethodEvidence, rate: float | None = None) -> float:
    """Return the mean over seeds of the lowest final loss, in nats.

    It is that at one learning rate if given, and infinite if no trial ended.
    """
    trials = [one for one in method.trials if rate in (None, one.learning_rate)]
    best = best_of_seeds(method.model_copy(update={"trials": tuple(trials)}))
    return fmean(map(loss_of, best)) if best else math.inf


def _gap(evidence: DiagnosisEvidence, loss: float) -> float:
    return max(0.0, loss - _best_loss(evidence)) if math.isfinite(loss) else 0.0


def _is_below_chance(evidence: DiagnosisEvidence, loss: float) -> bool:
    chance = evidence.chance_loss
    return loss < chance - STILL_FALLING * max(0.0, chance - _best_loss(evidence))


def larger_sizes(evidence: DiagnosisEvidence) -> list[MethodEvidence]:
    """Return the subject at clearly larger sizes."""
    least = LARGER * evidence.subject.parameters
    return [one for one in evidence.sizes if one.parameters >= least]


def larger_sizes_trained_as_well(evidence: DiagnosisEvidence) -> list[MethodEvidence]:
    """Return the larger sizes trained as much as the subject."""
    steps = evidence.subject.steps
    return [one for one in larger_sizes(evidence) if one.steps >= steps and is_measured(one)]


def can_grow(subject: MethodEvidence) -> bool:
    """Return True if the subject has a larger size on its model."""
    return subject.grows and (bool(subject.larger) or not subject.configuration)


def others_that_succeed(
    evidence: DiagnosisEvidence, *, is_bound_alike: bool = False
) -> list[MethodEvidence]:
    """Return other methods that have learned the task at the subject's budget.

    It is that of the largest size of the subject that was measured, and any if there is no larger
    size. If `is_bound_alike`, those with the same restriction as the subject; otherwise those
    without.
    """
    subject = evidence.subject
    sizes = (subject, *larger_sizes_trained_as_well(evidence))
    budget = EQUAL_BUDGET * max(one.parameters for one in sizes)
    budget = budget if can_grow(subject) else math.inf
    return [
        one
        for one in evidence.others
        if 0 < one.parameters <= budget
        and has_learned(evidence, one.score)
        and is_bound_alike == (one.restriction == subject.restriction != "")
    ]


def pinned_decides(evidence: DiagnosisEvidence) -> bool:
    """Return True if the pinned-attention reference shows something.

    Success does. Failing does if it has the seeds, steps and rates of the reference.
    """
    pinned, reference = evidence.pinned, evidence.reference
    if pinned is None or has_learned(evidence, pinned.score):
        return pinned is not None
    model = reference or pinned
    has_seeds = len(ended_seeds(pinned)) >= LEAST_SEEDS
    return has_seeds and pinned.steps >= model.steps and _covers(pinned, model)


def _covers(control: MethodEvidence, method: MethodEvidence) -> bool:
    """Return True if a control has the rates of what it controls."""
    own, needed = rates_of(control), rates_of(method)
    return own[0] <= ROUNDING * needed[0] and ROUNDING * own[-1] >= needed[-1]


def pinned_still_falls(evidence: DiagnosisEvidence) -> bool:
    """Return True if training with pinned attention was not at rest.

    Of a cosine schedule the loss half way says nothing: its rate was still high.
    """
    pinned = evidence.pinned
    if pinned is None or pinned.schedule != "constant":
        return False
    best = [one for one in best_of_seeds(pinned) if one.half_loss is not None]
    if not best:
        return False
    before = fmean(one.half_loss or 0.0 for one in best)
    return before - fmean(map(loss_of, best)) > STILL_FALLING * _gap(evidence, before)


def base_has_learned(base: BaseEvidence) -> bool:
    """Return True if the base is half way to 1 on its own tasks."""
    return base.accuracy - base.chance >= LEARNED_FROM * (1 - base.chance)


def seeds_of(method: MethodEvidence) -> set[int]:
    """Return the seeds that were run."""
    return {one.seed for one in method.trials}


def ended_seeds(method: MethodEvidence) -> set[int]:
    """Return the seeds with a trial that did not diverge."""
    return {one.seed for one in method.trials if one.final_loss is not None}


def _best_loss(evidence: DiagnosisEvidence) -> float:
    """Return the lowest training loss of the best method, in nats."""
    trials = best_known(evidence).trials
    return min((loss_of(one) for one in trials if one.final_loss is not None), default=0.0)


def high_loss(evidence: DiagnosisEvidence) -> float:
    """Return the loss, in nats, from which on a trial counts as high."""
    best = _best_loss(evidence)
    return best + HIGH_FROM * max(0.0, evidence.chance_loss - best)


def low_loss(evidence: DiagnosisEvidence) -> float:
    """Return the loss, in nats, below which training items are learned.

    Whole answers are then, in the geometric mean, at least half as likely as under the best method.
    With a loss that looks low per token, most answers of ten tokens can still be wrong.
    """
    of_half = -math.log(SUCCEEDS_FROM) / evidence.counted_length
    return min(_best_loss(evidence) + of_half, high_loss(evidence))


def low_trials(evidence: DiagnosisEvidence) -> list[TrialEvidence]:
    """Return the subject's trials that have learned their training items."""
    low = low_loss(evidence)
    return [one for one in evidence.subject.trials if loss_of(one) < low]


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


def highest_score(methods: Sequence[MethodEvidence]) -> float:
    """Return the best held-out score of any trial, or the best score."""
    trials = [trial.score or 0.0 for one in methods for trial in one.trials]
    return max(*trials, *(one.score for one in methods), 0.0)
