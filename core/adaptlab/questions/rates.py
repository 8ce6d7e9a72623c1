"""The choice of a method's learning rate from coarse sweeps."""

from dataclasses import dataclass

from adaptlab.questions.passes import MethodState, PassKind, TrainingPass, TriedRate

SWEEP_SEEDS = (0, 1)
"""The seeds of sweeps. None of them is evidence: a rate was chosen because they did well at it."""
FIRST_EVIDENCE_SEED = len(SWEEP_SEEDS)
MOST_WIDENINGS = 2
WHOLE_GRID = 3
"""Grids of at most this many rates are swept whole; of others, about every second rate."""
LARGEST_RATE = 10.0
MORE_ACCURATE = 0.005
"""A rate at an edge is widened if it is this much more accurate than all others."""
LOWER_LOSS = 0.99
"""Or, if all are equally accurate, if its loss is at most this share of the others'."""
LOWER_PERPLEXITY = 0.99
"""Or, of a task chosen by perplexity, if that is at most this share of the others'."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The chosen rate, None for a method that trains nothing.

    `is_edge` is true if it is the best of an edge that could not be widened. `falls` is true if the
    loss still fell there.
    """

    rate: float | None
    accuracy: float | None = None
    is_edge: bool = False
    falls: bool = False


@dataclass(frozen=True, slots=True)
class Untuned:
    """The sweep that is needed before there is a rate."""

    kind: PassKind
    rates: tuple[float, ...]
    reason: str


def tuning(method: MethodState) -> Tuned | Untuned | None:
    """Return the chosen rate or the next sweep, None while one is open.

    The best rate has the highest mean accuracy on validation items, or the lowest perplexity if
    that is measured, and of equal ones the lowest loss. Where it is the highest or the lowest rate
    tried, a finer and a wider one are tried, at most twice.
    """
    if len(method.rates) < 2:
        return Tuned(method.rates[0] if method.rates else None)
    sweeps = [one for one in method.passes if one.kind != "evidence"]
    if any(one.state == "open" for one in sweeps):
        return None
    done = [one for one in sweeps if one.state == "done"]
    if not done:
        rates = coarse(method.rates)
        what = f"{len(rates)} of {len(method.rates)} learning rates"
        return Untuned("sweep", rates, f"Sweep {what} with {len(SWEEP_SEEDS)} seeds.")
    tried = tried_rates(done)
    best = max(tried, key=_merit)
    wider = _wider(method, tried, best)
    widened = sum(one.kind == "wider" for one in done)
    if wider and widened < MOST_WIDENINGS:
        edge = "lowest" if best == tried[0] else "highest"
        reason = (
            f"The best rate, {best.learning_rate:g}, is the {edge} one tried, so rates around it "
            "are swept."
        )
        return Untuned("wider", wider, reason)
    return Tuned(best.learning_rate, best.accuracy, is_edge=bool(wider), falls=best.falls)


def coarse(grid: tuple[float, ...]) -> tuple[float, ...]:
    """Return about every second rate, at least three, with both ends."""
    if len(grid) <= WHOLE_GRID:
        return grid
    count = max(WHOLE_GRID, (len(grid) + 1) // 2)
    last = len(grid) - 1
    return tuple(grid[round(index * last / (count - 1))] for index in range(count))


def tried_rates(done: list[TrainingPass]) -> tuple[TriedRate, ...]:
    """Return the rates of all sweeps, ascending, with their latest results."""
    by_rate = {one.learning_rate: one for sweep in done for one in sweep.tried}
    return tuple(by_rate[rate] for rate in sorted(by_rate))


def _merit(one: TriedRate) -> tuple[float, float]:
    score = one.accuracy if one.lowest is None else -one.lowest
    return (score, -one.loss if one.loss is not None else float("-inf"))


def _wider(method: MethodState, tried: tuple[TriedRate, ...], best: TriedRate) -> tuple[float, ...]:
    """Return a finer and a wider rate if the best one is at an edge."""
    if best not in (tried[0], tried[-1]) or not _stands_out(tried, best):
        return ()
    inner = tried[1] if best == tried[0] else tried[-2]
    ratio = best.learning_rate / inner.learning_rate
    finer = (best.learning_rate * inner.learning_rate) ** 0.5
    skipped = [
        rate
        for rate in method.rates
        if min(best.learning_rate, inner.learning_rate)
        < rate
        < max(best.learning_rate, inner.learning_rate)
    ]
    further = best.learning_rate * ratio
    # Jobs with a single rate do not score validation items, so the best one is tried once more.
    new = (skipped[0] if skipped else finer, min(further, max(LARGEST_RATE, best.learning_rate)))
    return tuple(sorted(new))


def _stands_out(tried: tuple[TriedRate, ...], best: TriedRate) -> bool:
    others = [one for one in tried if one != best]
    if (lowest := best.lowest) is not None:
        return all(lowest <= LOWER_PERPLEXITY * (one.lowest or lowest) for one in others)
    if all(best.accuracy >= one.accuracy + MORE_ACCURATE for one in others):
        return True
    if any(one.accuracy != best.accuracy for one in others) or best.loss is None:
        return False
    return all(one.loss is None or best.loss <= LOWER_LOSS * one.loss for one in others)
