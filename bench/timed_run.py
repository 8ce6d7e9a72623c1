"""The engine with notes of when each step ended, for `added_cost`."""

import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

from adaptlab.engine.kernels.compiled import compile_kernels
from adaptlab.engine.observer import Command, Observer
from adaptlab.running.run import run as train
from adaptlab.runs.events import Event, Progress, TrainingSaved
from adaptlab.runs.inputs import PlacedInputs
from adaptlab.specs.resolved import Resolved
from adaptlab_worker.trainer.trainer import warm_up

NOTES = "BENCH_NOTES"
"""The environment variable with the file for the latest run's notes."""


class TimedObserver:
    """An observer that passes everything on and notes the time.

    Attributes:
        steps: the end of each training step, and the trainer's processor time by then.
        saves: start and end of saving each training state.
        telling: the seconds spent on messages to the worker.
    """

    def __init__(self, observer: Observer) -> None:
        self.steps: list[tuple[float, float]] = []
        self.saves: list[tuple[float, float]] = []
        self.telling = 0.0
        self._observer = observer
        self._asked_at = 0.0

    def emit(self, event: Event) -> None:
        """Pass the event on."""
        now = time.time()
        if isinstance(event, Progress) and event.phase == "training":
            self.steps.append((now, time.process_time()))
        if isinstance(event, TrainingSaved):
            self.saves.append((self._asked_at, now))
        self._observer.emit(event)
        self.telling += time.time() - now

    def command(self) -> Command:
        """Return the worker's command."""
        command = self._observer.command()
        if command == "save":
            self._asked_at = time.time()
        return command


def run(
    spec: Resolved,
    inputs: PlacedInputs,
    scratch: Path,
    observer: Observer,
    **given: Any,  # passed on
) -> None:
    """Run the engine and write the notes, however the run ends."""
    _warm()
    timed, begin = TimedObserver(observer), time.time()
    try:
        train(spec, inputs, scratch, timed, **given)
    finally:
        noted = {"steps": timed.steps, "saves": timed.saves, "telling": timed.telling}
        noted |= {"begin": begin, "end": time.time()}
        Path(os.environ[NOTES]).write_text(json.dumps(noted))


@cache
def _warm() -> None:
    """Prepare as a trainer does when nothing replaces the engine."""
    compile_kernels()
    warm_up(train)
