"""Training of all replicates of a job together, from any step on."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from adaptlab.engine.items.items import Items
from adaptlab.engine.items.prefetching import prefetched
from adaptlab.engine.items.task_items import items_of_steps
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.observer import Observer
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.chunks import StepDivision
from adaptlab.engine.training.descent import Descent
from adaptlab.engine.training.halving import compared_replicates, losers
from adaptlab.engine.training.outcome import TrainingOutcome
from adaptlab.engine.training.training_state import TrainingState, read_state, write_state
from adaptlab.engine.training.validation_standings import Standings, measured_standings, validation
from adaptlab.errors import TrainingDiverged, TrainingStopped
from adaptlab.runs.events import (
    MetricPoint,
    Metrics,
    Progress,
    TrainingSaved,
    is_loss,
    rung_curve,
    validation_curve,
)
from adaptlab.specs.curve_steps import CurveSteps

VALIDATION_SAMPLES = 256


class Training:
    """The training of a job's replicates from the first to the last step.

    A replicate is left out once its loss is not finite or above `LARGEST_LOSS`, it stops early, or
    its trial is eliminated at a rung. That does not affect the others, because nothing mixes
    replicates.
    """

    def __init__(
        self,
        plan: Plan,
        model: Model,
        trainables: Trainables,
        observer: Observer,
        memory_bytes: int | None = None,
    ) -> None:
        self.outcome = TrainingOutcome.untrained(plan.replicates)
        self._plan, self._observer = plan, observer
        self._scalars = trainables.scalars_per_replicate
        self._descent = Descent(plan, model.base, trainables, memory_bytes)
        # Losses since the last curve point stay on the device, so that no step waits for them.
        self._window = torch.zeros(plan.replicates, dtype=torch.float64, device=plan.device)
        self._counted = 0
        self._step = self._first = 0
        self._curves = CurveSteps.of(plan.training)

    @property
    def steps_taken(self) -> int:
        """Steps since the start or the restored state."""
        return self._step - self._first

    @property
    def division(self) -> StepDivision:
        """The finest division of a step."""
        return self._descent.division

    def run(self, scratch: Path) -> TrainingOutcome:
        """Train to the last step, or until every replicate has ended.

        States are saved in `scratch` on command.

        Raises:
            TrainingDiverged: if all replicates diverged.
            TrainingStopped: if the observer commands it.
            OutOfMemory: if not even one replicate fits in memory.
        """
        if self._plan.trained_shapes and (self._plan.method is None or self._plan.method.trains):
            try:
                self._train(scratch)
            finally:
                self._descent.close()
            self._descent.finish()
        return self.outcome

    def restore(self, path: Path) -> None:
        """Resume from a saved state, as if training had never stopped."""
        state = read_state(path, self._plan, self._scalars)
        self._descent.restore(state)
        self._window = state.window
        self._step = self._first = state.step
        self._counted = state.counted
        self.outcome = state.outcome

    def _train(self, scratch: Path) -> None:
        total = self._plan.training.steps
        while self._step < total and self._descent.live:
            seeds = self._descent.seeds
            for items in batches(self._plan, self._step, seeds):
                self._take_step(items)
                self._observer.emit(Progress(phase="training", step=self._step, total=total))
                self._obey(scratch)
                if self._descent.seeds != seeds:
                    break  # the remaining seeds need their items in another order

    def _take_step(self, items: Items) -> None:
        self._window += self._descent.step(items, self._step)
        self._step += 1
        self._counted += 1
        if self._curves.closes_window(self._step):
            self._close_window()
        if self._step in self._curves.validated:
            self._validate()
        if self._step in self._curves:
            self._leave_out()
        if self._step in self._curves.rungs:
            self._eliminate()
            self._leave_out()

    def _close_window(self) -> None:
        """Report mean losses since the last point; mark diverged replicates."""
        losses: list[float] = (self._window / self._counted).tolist()
        for replicate, loss in zip(self._descent.live, losses, strict=True):
            self.outcome.diverged[replicate] = not is_loss(loss)
            self.outcome.final_losses[replicate] = loss
            self.outcome.steps[replicate] = self._step
        self._window.zero_()
        self._counted = 0
        self._report("train_loss", self._descent.live, losses)
        self._check_diverged()

    def _check_diverged(self) -> None:
        """Raise `TrainingDiverged` if no replicate is left to select."""
        others = [
            diverged
            for replicate, diverged in enumerate(self.outcome.diverged)
            if not self.outcome.is_eliminated(replicate)
        ]
        if all(others):
            left = "" if len(others) == self._plan.replicates else " that went on"
            raise TrainingDiverged(
                f"By step {self._step} the loss of every replicate{left} was no longer finite. "
                "Lower the learning rate or the weight decay."
            )

    def _validate(self) -> None:
        """Report scores on the validation split; mark replicates that stop early."""
        plan = self._plan
        samples = min(VALIDATION_SAMPLES, plan.trained.validation_samples)
        values = self._descent.measure(lambda part: validation(plan, part, samples))
        losses, accuracies, metrics = values.T.tolist()
        curves = {"validation_loss": losses, "validation_accuracy": accuracies}
        if plan.stopping_metric is not None:
            curves[validation_curve(plan.stopping_metric)] = metrics
        for name, measured in curves.items():
            self._report(name, self._descent.live, measured, only_finite=True)
        for replicate in self._descent.impatient(losses, metrics):
            if not self.outcome.diverged[replicate]:
                self.outcome.stopped[replicate] = True
                self.outcome.steps[replicate] = self._step

    def _eliminate(self) -> None:
        """Compare the trials still trained; report their scores, mark the losers."""
        plan, live = self._plan, self._descent.live
        compared = compared_replicates(plan, live, self.outcome)
        if not compared:
            return
        measured = self._descent.standing(compared, lambda part: measured_standings(plan, part))
        standings, other = Standings.of(plan, compared, measured), plan.task.other_metric()
        self._report("rung_accuracy", compared, [standings.accuracy[r] for r in compared])
        metrics = standings.metric or {}
        if other is not None:
            self._report(rung_curve(other), compared, [metrics[r] for r in compared])
        for replicate in losers(plan, live, self.outcome, standings):
            self.outcome.eliminate(replicate, standings.accuracy[replicate], metrics.get(replicate))

    def _report(
        self,
        name: str,
        replicates: Sequence[int],
        values: Sequence[float],
        *,
        only_finite: bool = False,
    ) -> None:
        """Report one curve point per replicate.

        `values` are in the order of `replicates`.
        """
        rows = sorted(zip(replicates, values, strict=True))
        points = tuple(
            MetricPoint(
                replicate=replicate,
                name=name,
                step=self._step,
                value=value if is_loss(value) else None,
            )
            for replicate, value in rows
            if not only_finite or (is_loss(value) and not self.outcome.diverged[replicate])
        )
        self._observer.emit(Metrics(points=points))

    def _leave_out(self) -> None:
        """Continue with the replicates that have not ended."""
        left = [
            replicate for replicate in self._descent.live if not self.outcome.has_ended(replicate)
        ]
        if len(left) < len(self._descent.live):
            self._window = self._window[self._descent.keep(left)]

    def _obey(self, scratch: Path) -> None:
        command = self._observer.command()
        if command == "save":
            path = write_state(self._state(), self._plan, scratch)
            self._observer.emit(TrainingSaved(step=self._step, path=path))
            command = self._observer.command()
        if command == "stop":
            raise TrainingStopped(f"Stopped after step {self._step} as asked.")

    def _state(self) -> TrainingState:
        return TrainingState(
            **self._descent.state(),
            window=self._window,
            step=self._step,
            counted=self._counted,
            outcome=self.outcome,
        )


def batches(plan: Plan, first: int = 0, seeds: Sequence[int] | None = None) -> Iterator[Items]:
    """Yield the items [S, B, ...] of every step from `first` on.

    `seeds` are indices into the plan's, by default all.
    """
    training = plan.training
    chosen = plan.seeds if seeds is None else plan.seeds[list(seeds)]
    steps = range(first, training.steps)
    made = items_of_steps(plan.task, chosen, training.batch_size, steps)
    return prefetched(made, plan.device)
