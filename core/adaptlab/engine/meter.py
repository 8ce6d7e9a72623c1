"""Measures what a run takes, with the clock of whoever started it."""

from collections.abc import Callable

import torch

from adaptlab.engine.memory import forget_peak, held_bytes, peak_bytes
from adaptlab.measurements.results import Usage

Clock = Callable[[], float]
"""Seconds since some moment, as of `time.perf_counter`."""


class Meter:
    """Seconds of the phases of a run, and the memory held before and at most."""

    def __init__(self, device: torch.device, clock: Clock) -> None:
        forget_peak(device)
        self._device, self._clock = device, clock
        self._base_bytes = held_bytes(device)
        self._since = clock()
        self._training_seconds, self._training_steps, self._passes = 0.0, 0, 1

    def begin_training(self) -> None:
        """Whatever came before belongs to no phase."""
        self._since = self._clock()

    def end_training(self, steps: int, passes: int) -> None:
        """So many steps were taken, each in at most so many passes."""
        self._training_seconds = self._lap()
        self._training_steps, self._passes = steps, passes

    def usage(self) -> Usage:
        """Everything since the training counts as evaluation."""
        return Usage(
            training_seconds=self._training_seconds,
            training_steps=self._training_steps,
            passes=self._passes,
            evaluation_seconds=self._lap(),
            peak_memory_bytes=peak_bytes(self._device),
            base_memory_bytes=self._base_bytes,
        )

    def _lap(self) -> float:
        """Seconds since the last, with the device's work done."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = self._clock()
        seconds, self._since = now - self._since, now
        return seconds
