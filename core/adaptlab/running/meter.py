"""Time and memory of a run, measured with the caller's clock."""

from collections.abc import Callable

import torch

from adaptlab.engine.kernels.memory import forget_peak, held_bytes, peak_bytes
from adaptlab.engine.training.chunks import StepDivision
from adaptlab.runs.events import Usage

Clock = Callable[[], float]
"""Seconds since some moment, such as `time.perf_counter`."""


class Meter:
    """Seconds of a run's phases, and its memory at the start and at the peak."""

    def __init__(self, device: torch.device, clock: Clock) -> None:
        forget_peak(device)
        self._device, self._clock = device, clock
        self._base_bytes = held_bytes(device)
        self._since = clock()
        self._training_seconds, self._training_steps = 0.0, 0
        self._division = StepDivision()

    def begin_training(self) -> None:
        """Start the training phase; time before it counts for no phase."""
        self._since = self._clock()

    def end_training(self, steps: int, division: StepDivision) -> None:
        """End the training phase after steps that were divided in this way."""
        self._training_seconds = self._lap()
        self._training_steps, self._division = steps, division

    def usage(self) -> Usage:
        """Return the usage; all time since training counts as evaluation."""
        return Usage(
            training_seconds=self._training_seconds,
            training_steps=self._training_steps,
            passes=self._division.passes,
            batch_parts=self._division.parts,
            gradient_checkpointing=self._division.recomputes,
            evaluation_seconds=self._lap(),
            # The kernel notes its peak late and in batches of pages: it can lie below the start's.
            peak_memory_bytes=max(peak_bytes(self._device), self._base_bytes),
            base_memory_bytes=self._base_bytes,
        )

    def _lap(self) -> float:
        """Return the seconds since the last lap, after waiting for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = self._clock()
        seconds, self._since = now - self._since, now
        return seconds
