"""Selection of trials by their scores on validation.

The score is exact match, or the `metric` of the task. The highest is the best, of perplexity the
lowest.

Per seed: the trial with the best score on that seed; ties go to the lower training loss, then to
the first trial. Pooled: the trial with the best mean score over all seeds, where a diverged
replicate counts as 0, or as the largest perplexity; ties go to the lower mean training loss, then
to the first trial; every seed keeps that trial. A diverged replicate is never selected. So a seed
may end without one if the choice is pooled, or if all trials that survived successive halving
diverged later.
"""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.found_prompts import found_prompts
from adaptlab.engine.training.outcome import TrainingOutcome
from adaptlab.engine.training.passes import arranged, joined, passes
from adaptlab.engine.training.validation_standings import Standings, measured_standings
from adaptlab.runs.events import ReplicateResult


def decide(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables, outcome: TrainingOutcome
) -> tuple[ReplicateResult, ...]:
    """Return the result of every replicate, the kept ones selected."""
    standings = _standings(plan, base, trainables, outcome)
    selected = set(_selected(plan, outcome, standings))
    metrics = standings.metric or {}
    prompts = found_prompts(plan, base, trainables, outcome.steps)
    return tuple(
        ReplicateResult(
            replicate=replicate,
            seed=plan.spec.seeds[replicate // plan.trials],
            trial=replicate % plan.trials,
            **plan.training.trials[replicate % plan.trials].model_dump(),
            status=outcome.status(replicate),
            selected=replicate in selected,
            final_loss=None if outcome.diverged[replicate] else outcome.final_losses[replicate],
            validation_accuracy=standings.accuracy.get(replicate, outcome.eliminated[replicate]),
            validation_metric=metrics.get(replicate, outcome.metric_at_rung(replicate)),
            steps=outcome.steps[replicate],
            prompt=prompts[replicate] if replicate in selected else None,
        )
        for replicate in range(plan.replicates)
    )


def _selected(plan: Plan, outcome: TrainingOutcome, standings: Standings) -> tuple[int, ...]:
    """Return the replicates to keep, at most one per seed."""
    selected: list[int] = []
    for contest in contests(plan):
        finished = [trial for trial in contest if not any(map(outcome.is_eliminated, trial))]
        best = best_first(finished, outcome, standings)[0]
        selected += [replicate for replicate in best if not outcome.diverged[replicate]]
    return tuple(selected)


def contests(plan: Plan) -> list[list[list[int]]]:
    """Return the competing trials, as lists of replicates.

    They compete per seed, or pooled over all seeds.
    """
    by_seed = [range(s * plan.trials, (s + 1) * plan.trials) for s in range(len(plan.spec.seeds))]
    groups = by_seed if plan.trained.selection == "per_seed" else [range(plan.replicates)]
    return [
        [[r for r in group if r % plan.trials == t] for t in range(plan.trials)] for group in groups
    ]


def best_first(
    trials: Sequence[Sequence[int]], outcome: TrainingOutcome, standings: Standings
) -> list[Sequence[int]]:
    """Sort trials from best to worst by the scores of their replicates."""
    return sorted(trials, key=lambda trial: _rank(trial, outcome, standings))


def _rank(
    replicates: Sequence[int], outcome: TrainingOutcome, standings: Standings
) -> tuple[tuple[int, float], float]:
    """Return a sort key, lowest first, for the replicates of one trial."""
    losses = [
        math.inf if outcome.diverged[replicate] else outcome.final_losses[replicate] or 0.0
        for replicate in replicates
    ]
    return standings.cost(replicates), sum(losses) / len(losses)


def _standings(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables, outcome: TrainingOutcome
) -> Standings:
    """Return the standings of replicates that still compete, if any do."""
    if plan.trials == 1:
        return Standings({})
    alive = [
        replicate
        for replicate in range(plan.replicates)
        if not (outcome.diverged[replicate] or outcome.is_eliminated(replicate))
    ]
    live = arranged(alive, plan.trials)
    flat = trainables.flat if len(live) == plan.replicates else trainables.flat[live]
    (parts,) = passes(plan, base, live, flat, trainables.decays, len(live))
    return Standings.of(plan, live, joined([measured_standings(plan, part) for part in parts]))
