"""Gradient descent on all replicates of a job in one pass, from any step on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.allocate import Trainables
from adaptlab.engine.digits import Items, make_items, target_rows
from adaptlab.engine.dropout import training_step
from adaptlab.engine.evaluate import validation
from adaptlab.engine.grouped import lifted
from adaptlab.engine.model import Model
from adaptlab.engine.observer import Observer
from adaptlab.engine.optim import AdamW, schedule_factor
from adaptlab.engine.plan import Plan
from adaptlab.engine.training_state import TrainingState, read_state, write_state
from adaptlab.errors import TrainingDiverged, TrainingStopped
from adaptlab.results import MetricPoint, Metrics, Progress, TrainingSaved

CURVE_POINTS = 200
STEPS_OF_DATA = 16
VALIDATION_SAMPLES = 256


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


class Training:
    """The replicates of a job on their way from the first to the last step.

    A replicate whose loss is no longer finite is marked and goes unused; the others are not
    touched by it, because nothing mixes replicates.
    """

    def __init__(
        self, plan: Plan, model: Model, trainables: Trainables, observer: Observer
    ) -> None:
        training = plan.spec.training
        self.outcome = TrainingOutcome.untrained(plan.replicates)
        self._plan, self._model = plan, model
        self._trainables, self._observer = trainables, observer
        self._optimiser = AdamW(trainables, plan.replicate_decays, training.gradient_clip)
        # Losses since the last curve point stay on the device, so that no step waits for them.
        self._window = torch.zeros(plan.replicates, dtype=torch.float64, device=plan.device)
        self._counted = 0
        self._step = 0
        count = training.validations
        self._validated = {-(-training.steps * part // count) for part in range(1, count + 1)}

    def run(self, scratch: Path) -> TrainingOutcome:
        """Train to the last step, if there is anything to train; states are saved in `scratch`.

        Raises `TrainingDiverged` when no replicate is left, `TrainingStopped` when asked to stop.
        """
        total = self._plan.spec.training.steps
        if self._trainables.tensors:
            for items in batches(self._plan, self._step):
                self._take_step(items)
                self._observer.emit(Progress(phase="training", step=self._step, total=total))
                self._obey(scratch)
        self._observer.emit(Progress(phase="evaluating", step=total, total=total))
        return self.outcome

    def restore(self, path: Path) -> None:
        """Go on from a saved state as if there had been no pause."""
        state = read_state(path, self._plan, self._trainables.flat.shape[1])
        self._trainables.flat.copy_(state.flat)
        self._optimiser.restore(state.mean, state.square, state.step)
        self._window.copy_(state.window)
        self._step, self._counted = state.step, state.counted
        self.outcome = TrainingOutcome(
            list(state.final_losses), list(state.steps), list(state.diverged)
        )

    def _take_step(self, items: Items) -> None:
        training = self._plan.spec.training
        found = losses(self._plan, self._model, items, self._step)
        gradient = self._trainables.gradient(found.sum())
        factor = schedule_factor(
            self._step, training.steps, training.warmup_fraction, training.schedule
        )
        self._optimiser.step(gradient, self._plan.replicate_rates * factor)
        self._step += 1
        self._window += found.detach()
        self._counted += 1
        every = max(1, training.steps // CURVE_POINTS)
        if self._step == 1 or self._step % every == 0 or self._step == training.steps:
            self._close_window()
        if self._step in self._validated:
            self._validate()

    def _close_window(self) -> None:
        """Report the mean losses since the last point, and mark the replicates that diverged."""
        points: list[MetricPoint] = []
        for replicate, loss in enumerate((self._window / self._counted).tolist()):
            if self.outcome.diverged[replicate]:
                continue
            self.outcome.diverged[replicate] = not math.isfinite(loss)
            self.outcome.final_losses[replicate] = loss
            self.outcome.steps[replicate] = self._step
            points.append(
                MetricPoint(
                    replicate=replicate,
                    name="train_loss",
                    step=self._step,
                    value=loss if math.isfinite(loss) else None,
                )
            )
        self._window.zero_()
        self._counted = 0
        self._observer.emit(Metrics(points=tuple(points)))
        if all(self.outcome.diverged):
            raise TrainingDiverged(
                f"The loss of every replicate stopped being finite by step {self._step}; "
                "lower the learning rate or the weight decay."
            )

    def _validate(self) -> None:
        """Report loss and accuracy on validation items, of the replicates that go on."""
        samples = min(VALIDATION_SAMPLES, self._plan.spec.validation_samples)
        found = validation(self._model, self._plan.task, samples, self._plan.replicates)
        points = [
            MetricPoint(replicate=replicate, name=name, step=self._step, value=value)
            for name, values in zip(("validation_loss", "validation_accuracy"), found, strict=True)
            for replicate, value in enumerate(values.tolist())
            if not self.outcome.diverged[replicate] and math.isfinite(value)
        ]
        self._observer.emit(Metrics(points=tuple(points)))

    def _obey(self, scratch: Path) -> None:
        command = self._observer.command()
        if command == "save":
            path = write_state(self._state(), self._plan, scratch)
            self._observer.emit(TrainingSaved(step=self._step, path=path))
            command = self._observer.command()
        if command == "stop":
            raise TrainingStopped(f"Stopped after step {self._step} as asked.")

    def _state(self) -> TrainingState:
        mean, square = self._optimiser.moments
        return TrainingState(
            flat=self._trainables.flat,
            mean=mean,
            square=square,
            window=self._window,
            step=self._step,
            counted=self._counted,
            final_losses=tuple(self.outcome.final_losses),
            steps=tuple(self.outcome.steps),
            diverged=tuple(self.outcome.diverged),
        )


def batches(plan: Plan, first: int = 0) -> Iterator[Items]:
    """The items of every step from `first` on, [S, B, ...]; the trials of a seed see the same.

    Items of several steps are made at once, because making few costs as much as making many.
    """
    training = plan.spec.training
    size = training.batch_size
    for step in range(first, training.steps, STEPS_OF_DATA):
        steps = min(STEPS_OF_DATA, training.steps - step)
        items = make_items(plan.task, "train", plan.seeds, step * size, steps * size)
        for tokens, targets in zip(
            items.tokens.split(size, 1), items.targets.split(size, 1), strict=True
        ):
            yield Items(tokens, targets)


def losses(plan: Plan, model: Model, items: Items, step: int) -> Tensor:
    """The mean cross-entropy over answer tokens at a step of training, for every replicate, [R]."""
    at = training_step(plan, step)
    logits = model.logits(items.tokens, target_rows(plan.task), training=at)
    logits, targets = (lifted(part, plan.replicates) for part in (logits, items.targets))
    found = functional.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="none")
    return found.view(plan.replicates, -1).mean(1)
