"""The choice of trials for every seed, at the end and on the way, by exact match on validation.

Per seed: the trial with the best accuracy on that seed; among equals the one with the lower
training loss, then the one that comes first. Pooled: the trial with the best mean accuracy over
all seeds, to which a diverged replicate contributes 0; among equals the one with the lower mean
training loss, then the one that comes first; every seed keeps that trial. A diverged replicate is
never kept, so with a pooled choice a seed may end without one, and with successive halving also
where all trials that went on diverged later.
"""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from adaptlab.engine.allocate import Trainables
from adaptlab.engine.evaluate import outcomes
from adaptlab.engine.outcome import TrainingOutcome
from adaptlab.engine.passes import Pass, arranged, in_passes, passes
from adaptlab.engine.plan import Plan
from adaptlab.measurements.results import ReplicateResult


def decide(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables, outcome: TrainingOutcome
) -> tuple[ReplicateResult, ...]:
    """How every replicate ended, those that are kept marked as selected."""
    scores = _validation_scores(plan, base, trainables, outcome) if plan.trials > 1 else {}
    selected = set(_selected(plan, outcome, scores))
    return tuple(
        ReplicateResult(
            replicate=replicate,
            seed=plan.spec.seeds[replicate // plan.trials],
            trial=replicate % plan.trials,
            **plan.training.trials[replicate % plan.trials].model_dump(),
            status=outcome.status(replicate),
            selected=replicate in selected,
            final_loss=None if outcome.diverged[replicate] else outcome.final_losses[replicate],
            validation_accuracy=scores.get(replicate, outcome.eliminated[replicate]),
            steps=outcome.steps[replicate],
        )
        for replicate in range(plan.replicates)
    )


def _selected(plan: Plan, outcome: TrainingOutcome, scores: Mapping[int, float]) -> tuple[int, ...]:
    """The replicates to keep, at most one for each seed."""
    found: list[int] = []
    for contest in contests(plan):
        finished = [trial for trial in contest if not any(map(outcome.is_eliminated, trial))]
        best = best_first(finished, outcome, scores)[0]
        found += [replicate for replicate in best if not outcome.diverged[replicate]]
    return tuple(found)


def contests(plan: Plan) -> list[list[list[int]]]:
    """The trials that compete, each by its replicates: those of every seed, or pooled over all."""
    by_seed = [range(s * plan.trials, (s + 1) * plan.trials) for s in range(len(plan.spec.seeds))]
    groups = by_seed if plan.trained.selection == "per_seed" else [range(plan.replicates)]
    return [
        [[r for r in group if r % plan.trials == t] for t in range(plan.trials)] for group in groups
    ]


def best_first(
    trials: Sequence[Sequence[int]], outcome: TrainingOutcome, scores: Mapping[int, float]
) -> list[Sequence[int]]:
    """Trials in the order in which they are preferred, by the accuracies of their replicates."""
    return sorted(trials, key=lambda trial: _rank(trial, outcome, scores))


def right_answers(plan: Plan, one: Pass) -> Tensor:
    """The accuracies by which the replicates of a pass are chosen, [R]."""
    samples = plan.trained.validation_samples
    found = outcomes(one.model, plan.task, "validation", samples, one.cut.replicates)
    return found.double().mean(1)


def _rank(
    replicates: Sequence[int], outcome: TrainingOutcome, scores: Mapping[int, float]
) -> tuple[float, float]:
    """The lower, the better: of replicates of one trial, which are compared on the same seeds."""
    losses = [
        math.inf if outcome.diverged[one] else outcome.final_losses[one] or 0.0
        for one in replicates
    ]
    accuracy = sum(scores.get(one, 0.0) for one in replicates) / len(replicates)
    return -accuracy, sum(losses) / len(losses)


def _validation_scores(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables, outcome: TrainingOutcome
) -> dict[int, float]:
    """The accuracy of every replicate that has neither diverged nor been eliminated."""
    alive = [
        one
        for one in range(plan.replicates)
        if not (outcome.diverged[one] or outcome.is_eliminated(one))
    ]
    live = arranged(alive, plan.trials)
    flat = trainables.flat if len(live) == plan.replicates else trainables.flat[live]
    each = passes(plan, base, live, flat, trainables.decays, len(live))
    right = in_passes(each, lambda one: right_answers(plan, one))
    return dict(zip(live, right.tolist(), strict=True))
