"""Successive halving: when trials are compared on the way, and how many of them go on.

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
    """The steps after `first` up to `last`, made by `trials` of every seed."""

    first: int
    last: int
    trials: int


def rung_steps(steps: int, halving: Halving | None) -> tuple[int, ...]:
    """The steps after which trials are compared: the shares keepⁿ, …, keep², keep of all.

    So every stage after the first costs the same, because the trials become fewer as it grows.
    """
    if halving is None:
        return ()
    keep = _exact(halving.keep)
    return tuple(math.ceil(steps * keep**power) for power in range(halving.rungs, 0, -1))


def going_on(halving: Halving, trials: int) -> int:
    """How many of so many trials go on at a rung: the share `keep`, rounded up."""
    return max(1, math.ceil(_exact(halving.keep) * trials))


def stages(training: ResolvedTraining) -> Iterator[Stage]:
    """From rung to rung, as if no trial ended in another way; one stage without halving."""
    first, trials = 0, len(training.trials)
    for last in rung_steps(training.steps, training.halving):
        yield Stage(first=first, last=last, trials=trials)
        assert training.halving is not None
        first, trials = last, going_on(training.halving, trials)
    yield Stage(first=first, last=training.steps, trials=trials)


def halving_problems(steps: int, trials: int, halving: Halving | None) -> Iterator[Problem]:
    """What of a halving cannot be done with so many steps and trials."""
    if halving is None:
        return
    if trials == 1:
        detail = (
            "There is only one trial, so halving has nothing to stop. Use more trials, or "
            "leave halving out."
        )
        yield Problem("/tuning/halving", "nothing_to_halve", detail)
    elif going_on(halving, trials) == trials:
        detail = (
            f"A share of {halving.keep:g} of {trials} trials, rounded up, is all of them, so "
            "none would be stopped. Lower the share, or leave halving out."
        )
        most = ((trials - 1) / trials,)
        yield Problem("/tuning/halving/keep", "nothing_to_halve", detail, nearest=most)
    if not _are_apart(steps, halving):
        detail = (
            f"{halving.rungs} rungs, each after {halving.keep:g} of the steps of the next, do "
            f"not fit in {steps} steps. Use fewer rungs."
        )
        fewer = (halving.model_copy(update={"rungs": n}) for n in range(halving.rungs - 1, 0, -1))
        nearest = next(((one.rungs,) for one in fewer if _are_apart(steps, one)), ())
        yield Problem("/tuning/halving/rungs", "too_many_rungs", detail, nearest=nearest)


def _are_apart(steps: int, halving: Halving) -> bool:
    places = (0, *rung_steps(steps, halving), steps)
    return all(one < other for one, other in pairwise(places))


def _exact(keep: float) -> Fraction:
    """The simple fraction that is meant, so that 5 / 6 of six trials are five, not all of them."""
    return Fraction(keep).limit_denominator(10**6)
