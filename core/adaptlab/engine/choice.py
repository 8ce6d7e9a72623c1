"""Selection of trials by exact match on validation.

Per seed: the trial with the best accuracy on that seed; ties go to the lower training loss, then to
the first trial. Pooled: the trial with the best mean accuracy over all seeds, where a diverged
replicate counts as 0; ties go to the lower mean training loss, then to the first trial; every seed
keeps that trial. A diverged replicate is never selected. So a seed may end without one if the
choice is pooled, or if all trials that survived successive halving diverged later.
"""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from adaptlab.engine.allocate import Trainables
from adaptlab.engine.evaluate import outcomes
from adaptlab.engine.found_prompts import found_prompts
from adaptlab.engine.outcome import TrainingOutcome
from adaptlab.engine.passes import Pass, arranged, in_passes, passes
from adaptlab.engine.plan import Plan
from adaptlab.engine.tensors import Float
from adaptlab.measurements.results import ReplicateResult


def decide(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables, outcome: TrainingOutcome
) -> tuple[ReplicateResult, ...]:
    """Return the result of every replicate, the kept ones selected."""
    scores = _validation_scores(plan, base, trainables, outcome) if plan.trials > 1 else {}
    selected = set(_selected(plan, outcome, scores))
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
            validation_accuracy=scores.get(replicate, outcome.eliminated[replicate]),
            steps=outcome.steps[replicate],
            prompt=prompts[replicate] if replicate in selected else None,
        )
        for replicate in range(plan.replicates)
    )


def _selected(plan: Plan, outcome: TrainingOutcome, scores: Mapping[int, float]) -> tuple[int, ...]:
    """Return the replicates to keep, at most one per seed."""
    selected: list[int] = []
    for contest in contests(plan):
        finished = [trial for trial in contest if not any(map(outcome.is_eliminated, trial))]
        best = best_first(finished, outcome, scores)[0]
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
    trials: Sequence[Sequence[int]], outcome: TrainingOutcome, scores: Mapping[int, float]
) -> list[Sequence[int]]:
    """Sort trials from best to worst by the accuracies of their replicates."""
    return sorted(trials, key=lambda trial: _rank(trial, outcome, scores))


def right_answers(plan: Plan, one: Pass) -> Float[Tensor, "R"]:
    """Return the validation accuracies of a pass's replicates."""
    samples = plan.trained.validation_samples
    outcomes_of_items = outcomes(one.model, plan.task, "validation", samples, one.cut.replicates)
    return outcomes_of_items.double().mean(1)


def _rank(
    replicates: Sequence[int], outcome: TrainingOutcome, scores: Mapping[int, float]
) -> tuple[float, float]:
    """Return a sort key, lowest first, for the replicates of one trial."""
    losses = [
        math.inf if outcome.diverged[replicate] else outcome.final_losses[replicate] or 0.0
        for replicate in replicates
    ]
    accuracy = sum(scores.get(replicate, 0.0) for replicate in replicates) / len(replicates)
    return -accuracy, sum(losses) / len(losses)


def _validation_scores(
    plan: Plan, base: Mapping[str, Tensor], trainables: Trainables, outcome: TrainingOutcome
) -> dict[int, float]:
    """Return the accuracy of every replicate still in the competition."""
    alive = [
        replicate
        for replicate in range(plan.replicates)
        if not (outcome.diverged[replicate] or outcome.is_eliminated(replicate))
    ]
    live = arranged(alive, plan.trials)
    flat = trainables.flat if len(live) == plan.replicates else trainables.flat[live]
    parts = passes(plan, base, live, flat, trainables.decays, len(live))
    right = in_passes(parts, lambda part: right_answers(plan, part))
    return dict(zip(live, right.tolist(), strict=True))
