"""Which trials go on at a rung of successive halving: the best, by the rule of `choice`.

Only trials with a replicate that is still trained compete. One that stopped early has finished and
is a candidate at the end whatever happens here; pooled, its accuracy counts for its trial, and a
diverged one counts as nothing right.
"""

from collections.abc import Collection, Mapping, Sequence

from adaptlab.engine.choice import best_first, contests
from adaptlab.engine.outcome import TrainingOutcome
from adaptlab.engine.passes import arranged
from adaptlab.engine.plan import Plan
from adaptlab.specs.halving import going_on


def compared_replicates(plan: Plan, live: Collection[int], outcome: TrainingOutcome) -> list[int]:
    """The replicates to score, arranged; none where every trial would go on anyway."""
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
    plan: Plan, live: Collection[int], outcome: TrainingOutcome, scores: Mapping[int, float]
) -> list[int]:
    """The live replicates of the trials that do not go on."""
    return [
        replicate
        for trials in _competing(plan, live)
        for trial in best_first(trials, outcome, scores)[_places(plan, trials) :]
        for replicate in trial
        if replicate in live
    ]


def _competing(plan: Plan, live: Collection[int]) -> list[list[list[int]]]:
    """For each contest the trials that are still trained, on any of its seeds."""
    return [
        [trial for trial in contest if any(replicate in live for replicate in trial)]
        for contest in contests(plan)
    ]


def _places(plan: Plan, trials: Sequence[Sequence[int]]) -> int:
    """How many of these trials go on."""
    halving = plan.training.halving
    return len(trials) if halving is None else going_on(halving, len(trials))
