"""Runs as event files that TensorBoard shows: a folder for each run."""

import math
import re
import shutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from adaptlab_answers.trackers.tracked_runs import TrackedRun

FILE = "events.out.tfevents.0.adaptlab"
"""A fixed name: a second export replaces the first instead of doubling its points."""
_NOT_IN_NAMES = re.compile(r"[^\w\-.]")


class TensorBoardFolder:
    """A folder of event files, such as `tensorboard --logdir` reads.

    Raises `ImportError` without the package `tensorboard`, with the package to install.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self.place = str(folder)
        self._tensorboard = _modules()

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Write runs, in place of those written before; return their number."""
        number = 0
        for run in runs:
            place = self._folder.joinpath(*(_NOT_IN_NAMES.sub("_", name) for name in run.path))
            self._write(run, place)
            number += 1
        return number

    def _write(self, run: TrackedRun, place: Path) -> None:
        event, writer_of = self._tensorboard
        part = place / ".part"
        shutil.rmtree(part, ignore_errors=True)
        writer = writer_of(str(part))
        begun = run.created_at.timestamp()
        try:
            for name, text in {**run.parameters, **run.tags}.items():
                writer.add_event(_text(event, begun, name, text))
            for point in run.points:
                made = event.Event(wall_time=begun + point.step, step=point.step)
                made.summary.value.add(tag=point.name, simple_value=_float32(point.value))
                writer.add_event(made)
        finally:
            writer.close()
        (written,) = part.iterdir()
        written.replace(place / FILE)
        part.rmdir()


def _text(event: Any, at: float, name: str, text: str) -> Any:  # Any: generated messages
    made = event.Event(wall_time=at)
    value = made.summary.value.add(tag=name)
    value.metadata.plugin_data.plugin_name = "text"
    value.tensor.dtype = 7  # DT_STRING
    value.tensor.tensor_shape.dim.add(size=1)
    value.tensor.string_val.append(text.encode())
    return made


def _float32(value: float) -> float:
    return value if math.isfinite(value) and abs(value) < 3e38 else math.nan


def _modules() -> tuple[Any, Any]:
    """Return TensorBoard's messages and its writer of files."""
    try:
        event = import_module("tensorboard.compat.proto.event_pb2")
        writer = import_module("tensorboard.summary.writer.event_file_writer")
    except ImportError as error:
        detail = (
            "Event files need the package tensorboard: `pip install tensorboard`, or adaptlab with "
            "the extra `tensorboard`."
        )
        raise ImportError(detail) from error
    return event, writer.EventFileWriter
