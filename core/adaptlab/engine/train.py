"""Gradient descent on all replicates of a job in one pass."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.allocate import Trainables
from adaptlab.engine.digits import Items, make_items, target_rows
from adaptlab.engine.model import Model
from adaptlab.engine.observer import Observer
from adaptlab.engine.optim import AdamW, schedule_factor
from adaptlab.engine.plan import Plan
from adaptlab.errors import TrainingDiverged, TrainingStopped
from adaptlab.results import MetricPoint, Metrics, Progress

CURVE_POINTS = 200
STEPS_OF_DATA = 16


@dataclass
class TrainingOutcome:
    """How the replicates ended: the last windowed loss, the steps made, and divergence, [R].

    A loss is None where nothing was trained.
    """

    final_losses: list[float | None]
    steps: list[int]
    diverged: list[bool]

    @classmethod
    def untrained(cls, replicates: int) -> Self:
        """What there is to say before the first step."""
        return cls([None] * replicates, [0] * replicates, [False] * replicates)


@dataclass
class _Curve:
    """Losses since the last curve point, kept on the device so that no step waits for them."""

    observer: Observer
    total: int
    outcome: TrainingOutcome
    window: Tensor
    counted: int = 0

    def add(self, losses: Tensor, step: int) -> None:
        self.window += losses
        self.counted += 1
        every = max(1, self.total // CURVE_POINTS)
        if step == 1 or step % every == 0 or step == self.total:
            self._close(step)

    def _close(self, step: int) -> None:
        means = (self.window / self.counted).tolist()
        points: list[MetricPoint] = []
        for replicate, loss in enumerate(means):
            if self.outcome.diverged[replicate]:
                continue
            self.outcome.diverged[replicate] = not math.isfinite(loss)
            self.outcome.final_losses[replicate] = loss
            self.outcome.steps[replicate] = step
            value = loss if math.isfinite(loss) else None
            points.append(
                MetricPoint(replicate=replicate, name="train_loss", step=step, value=value)
            )
        self.window.zero_()
        self.counted = 0
        self.observer.emit(Metrics(points=tuple(points)))
        if all(self.outcome.diverged):
            raise TrainingDiverged(
                f"The loss of every replicate stopped being finite by step {step}; "
                "lower the learning rate or the weight decay."
            )


def train(plan: Plan, model: Model, trainables: Trainables, observer: Observer) -> TrainingOutcome:
    """Train to the last step, if there is anything to train.

    Raises `TrainingDiverged` when no replicate is left, `TrainingStopped` when asked to stop.

    A replicate whose loss is no longer finite is marked and goes unused; the others are not
    touched by it, because nothing mixes replicates.
    """
    training = plan.spec.training
    optimiser = AdamW(trainables, training.weight_decay, training.gradient_clip)
    replicates = plan.replicates
    outcome = TrainingOutcome.untrained(replicates)
    window = torch.zeros(replicates, dtype=torch.float64, device=plan.device)
    curve = _Curve(observer, training.steps, outcome, window)
    rates = plan.replicate_rates
    for step, items in enumerate(batches(plan) if trainables.tensors else ()):
        replicate_losses = losses(plan, model, items)
        gradient = trainables.gradient(replicate_losses.sum())
        factor = schedule_factor(step, training.steps, training.warmup_fraction, training.schedule)
        optimiser.step(gradient, rates * factor)
        curve.add(replicate_losses.detach(), step + 1)
        observer.emit(Progress(phase="training", step=step + 1, total=training.steps))
        if observer.should_stop():
            raise TrainingStopped(f"Stopped after step {step + 1} as asked.")
    observer.emit(Progress(phase="evaluating", step=training.steps, total=training.steps))
    return outcome


def batches(plan: Plan) -> Iterator[Items]:
    """The items of every step for every replicate; the trials of a seed see the same.

    Items of several steps are made at once, because making few costs as much as making many.
    """
    training = plan.spec.training
    size = training.batch_size
    for step in range(0, training.steps, STEPS_OF_DATA):
        steps = min(STEPS_OF_DATA, training.steps - step)
        items = make_items(plan.task, "train", plan.seeds, step * size, steps * size)
        for tokens, targets in zip(
            items.tokens.split(size, 1), items.targets.split(size, 1), strict=True
        ):
            yield Items(
                tokens.repeat_interleave(plan.trials, 0), targets.repeat_interleave(plan.trials, 0)
            )


def losses(plan: Plan, model: Model, items: Items) -> Tensor:
    """The mean cross-entropy over answer tokens for every replicate, [R]."""
    logits = model.logits(items.tokens, target_rows(plan.task))
    found = functional.cross_entropy(
        logits.flatten(0, 2), items.targets.flatten(), reduction="none"
    )
    return found.view(plan.replicates, -1).mean(1)
