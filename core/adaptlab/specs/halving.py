"""Successive halving: steps of the rungs and trials that continue.

K. Jamieson and A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
optimization" (2016); L. Li et al., "Hyperband" (2017), whose reduction factor is 1 / `keep`.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from adaptlab.errors import Problem
from adaptlab.specs.spec import Halving, ResolvedTraining
from adaptlab.values import Value


class Stage(Value):
    """The steps after `first` up to `last`, with `trials` trials per seed."""

    first: int
    last: int
    trials: int


def rung_steps(steps: int, halving: Halving | None) -> tuple[int, ...]:
    """Return the steps after which trials are compared.

    They are the shares keepⁿ, …, keep², keep of all steps. Every stage after the first costs the
    same, because longer stages have fewer trials.
    """
    if halving is None:
        return ()
    keep = _exact(halving.keep)
    return tuple(math.ceil(steps * keep**power) for power in range(halving.rungs, 0, -1))


def continuing_trials(halving: Halving, trials: int) -> int:
    """Return the number of trials that continue after a rung, rounded up."""
    return max(1, math.ceil(_exact(halving.keep) * trials))


def stages(training: ResolvedTraining) -> Iterator[Stage]:
    """Yield the stages from rung to rung; without halving, a single one.

    Early stopping and divergence are not considered.
    """
    first, trials = 0, len(training.trials)
    for last in rung_steps(training.steps, training.halving):
        yield Stage(first=first, last=last, trials=trials)
        assert training.halving is not None
        first, trials = last, continuing_trials(training.halving, trials)
    yield Stage(first=first, last=training.steps, trials=trials)


def halving_problems(steps: int, trials: int, halving: Halving | None) -> Iterator[Problem]:
    """Yield the problems of halving with these steps and trials."""
    if halving is None:
        return
    if trials == 1:
        detail = (
            "There is only 1 trial per seed, so halving has nothing to stop. Use more trials, or "
            "leave halving out."
        )
        yield Problem("/tuning/halving", "nothing_to_halve", detail)
    elif continuing_trials(halving, trials) == trials:
        detail = (
            f"A share of {halving.keep:g} of {trials} trials, rounded up, is all of them, so "
            "no trial would be stopped. Lower `keep`, or leave halving out."
        )
        most = ((trials - 1) / trials,)
        yield Problem("/tuning/halving/keep", "nothing_to_halve", detail, nearest=most)
    if not _are_apart(steps, halving):
        detail = (
            f"{halving.rungs} rungs, each after {halving.keep:g} of the steps of the next one, "
            f"do not fit in {steps:,} steps. Use fewer rungs."
        )
        fewer = (halving.model_copy(update={"rungs": n}) for n in range(halving.rungs - 1, 0, -1))
        nearest = next(((other.rungs,) for other in fewer if _are_apart(steps, other)), ())
        yield Problem("/tuning/halving/rungs", "too_many_rungs", detail, nearest=nearest)


def _are_apart(steps: int, halving: Halving) -> bool:
    places = (0, *rung_steps(steps, halving), steps)
    return all(before < after for before, after in pairwise(places))


def _exact(keep: float) -> Fraction:
    """Return the closest simple fraction, so that 5 / 6 of 6 trials are 5."""
    return Fraction(keep).limit_denominator(10**6)
