"""Elimination of trials at a rung, by the rule of `choice`.

Only trials with a replicate that is still trained compete. A replicate that stopped early has
finished and remains a candidate at the end. Pooled, its score counts for its trial, and a
diverged replicate counts as the worst score.
"""

from collections.abc import Collection, Sequence

from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.choice import best_first, contests
from adaptlab.engine.training.outcome import TrainingOutcome
from adaptlab.engine.training.passes import arranged
from adaptlab.engine.training.validation_standings import Standings
from adaptlab.specs.halving import continuing_trials


def compared_replicates(plan: Plan, live: Collection[int], outcome: TrainingOutcome) -> list[int]:
    """Return the replicates to score, arranged.

    There are none if every trial would go on anyway.
    """
    compared = [
        replicate
        for trials in _competing(plan, live)
        if _places(plan, trials) < len(trials)
        for trial in trials
        for replicate in trial
        if not outcome.diverged[replicate]
    ]
    return arranged(compared, plan.trials)


def losers(
    plan: Plan, live: Collection[int], outcome: TrainingOutcome, standings: Standings
) -> list[int]:
    """Return the live replicates of the trials that are eliminated."""
    return [
        replicate
        for trials in _competing(plan, live)
        for trial in best_first(trials, outcome, standings)[_places(plan, trials) :]
        for replicate in trial
        if replicate in live
    ]


def _competing(plan: Plan, live: Collection[int]) -> list[list[list[int]]]:
    """Return for each contest the trials that are still trained."""
    return [
        [trial for trial in contest if any(replicate in live for replicate in trial)]
        for contest in contests(plan)
    ]


def _places(plan: Plan, trials: Sequence[Sequence[int]]) -> int:
    """Return the number of these trials that go on."""
    halving = plan.training.halving
    return len(trials) if halving is None else continuing_trials(halving, len(trials))
