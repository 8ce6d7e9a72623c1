"""Runs as offline runs of Weights & Biases, which `wandb sync` sends."""

import hashlib
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from adaptlab.errors import TrackerRefused
from adaptlab_answers.trackers.tracked_runs import ID_TAG, TrackedPoint, TrackedRun

LONGEST_TAG = 64
KEPT = "adaptlab.kept"
"""File next to a run that says what was written and sent."""
_KINDS = ("study", "job", "seed")
"""Types of runs by depth; a job's is its own kind."""


class WandbFolder:
    """A folder of offline runs, such as `wandb sync FOLDER` sends.

    A run's id is that of the study or job, which no other server gives; a seed's ends in its
    number. W&B replaces settings, notes and the summary of a run that it has, but it appends to
    curves. So only curves are logged by step, scores are in the summary, and curves that
    `wandb sync` has marked as sent are not written again. Source: wandb 0.31, `runupserter.go`.

    Args:
        folder: where runs are written, each in a folder of its own; to be kept.
        project: name of the project that `wandb sync` sends to.

    Raises `ImportError` without the package `wandb`, with the package to install.
    """

    def __init__(self, folder: str | Path, project: str = "adaptlab") -> None:
        self._folder = Path(folder)
        self.place = str(folder)
        self._project = project
        self._wandb = _module()

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Write runs, in place of those written before; return their number.

        Raises `TrackerRefused` if W&B's own process, which writes them, does not run.
        """
        number = 0
        for run in runs:
            try:
                self._replace(run)
            except self._wandb.Error as error:
                detail = f"W&B cannot write to {self.place}: {error}."
                raise TrackerRefused(f"{detail} Check that `wandb` works here.") from error
            number += 1
        return number

    def _replace(self, run: TrackedRun) -> None:
        identity = run.key.replace("/", "-")
        place = self._folder / f"offline-run-{run.created_at:%Y%m%d_%H%M%S}-{identity}"
        stamp, curves, kept = f"{self._project} {run.stamp}", _curves(run), _Kept.read(place)
        if kept.stamp == stamp:
            return
        file = place / f"run-{identity}.wandb"
        marks = [file.with_suffix(f".wandb.{ending}") for ending in ("synced", "syncstate")]
        sent = kept.written if kept.written and marks[0].exists() else kept.sent
        digest = _digest(self._project, curves)
        part = place / ".part"
        made = self._write(run, identity, {} if sent == digest else curves, part)
        _Kept(sent=sent).write(place)  # a process that is killed here leaves a run to write again
        for mark in marks:
            mark.unlink(missing_ok=True)
        made.replace(file)
        _Kept(stamp, digest, sent).write(place)
        shutil.rmtree(part, ignore_errors=True)

    def _write(
        self, run: TrackedRun, identity: str, curves: Mapping[int, dict[str, float]], part: Path
    ) -> Path:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        begun = self._wandb.init(
            dir=str(part),
            mode="offline",
            reinit="create_new",
            project=self._project,
            id=identity,
            name="/".join(run.path[1:] or run.path),
            group=run.path[0],
            job_type=run.parameters.get("kind", _KINDS[len(run.path) - 1]),
            notes="\n\n".join(filter(None, (run.note, run.tags.get("adaptlab.url")))),
            tags=_tags(run),
            config=_config(run),
            settings=self._wandb.Settings(
                console="off",
                disable_code=True,
                disable_git=True,
                host="",
                save_code=False,
                silent=True,
                x_disable_machine_info=True,  # the run was on another machine
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
            ),
        )
        for step, figures in sorted(curves.items()):
            begun.log(figures, step=step)
        begun.summary.update(_summary(run))
        begun.finish(exit_code=int(bool(run.ended_at) and run.state != "succeeded"))
        (made,) = part.glob("wandb/offline-*/*.wandb")
        return made


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was written of a run, with digests of the curves there.

    Attributes:
        stamp: the run's; nothing if it has to be written.
        written: of the curves in its file, or sent before.
        sent: of the curves that W&B has.
    """

    stamp: str = ""
    written: str = ""
    sent: str = ""

    @classmethod
    def read(cls, place: Path) -> "_Kept":
        file = place / KEPT
        return cls(*file.read_text().splitlines()) if file.exists() else cls()

    def write(self, place: Path) -> None:
        (place / KEPT).write_text("\n".join(astuple(self)))


def _curves(run: TrackedRun) -> dict[int, dict[str, float]]:
    """Return by step what has several of them."""
    lengths = Counter(point.name for point in run.points)
    figures: dict[int, dict[str, float]] = {}
    for point in run.points:
        if lengths[point.name] > 1:
            figures.setdefault(point.step, {})[point.name] = _shown(point)
    return figures


def _summary(run: TrackedRun) -> dict[str, float | str]:
    """Return the last value by name, with the state and the verdict."""
    summary: dict[str, float | str] = {"state": run.state}
    for point in sorted(run.points, key=attrgetter("step")):
        summary[point.name] = _shown(point)
    if verdict := run.tags.get("adaptlab.verdict"):
        summary["verdict"] = verdict
    return summary


def _shown(point: TrackedPoint) -> float:
    return point.value if math.isfinite(point.value) else math.nan


def _digest(project: str, curves: Mapping[int, dict[str, float]]) -> str:
    content = json.dumps([project, curves], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _tags(run: TrackedRun) -> list[str]:
    """Return the state and the labels, as far as their lengths allow."""
    labels = [
        f"{name.removeprefix('labels.')}={value}"[:LONGEST_TAG]
        for name, value in run.tags.items()
        if name.startswith("labels.")
    ]
    return sorted({run.state, *labels})


def _config(run: TrackedRun) -> dict[str, object]:
    """Return settings, as numbers where they are; tags are below `adaptlab`."""
    below: dict[str, dict[str, str]] = {}
    times = {"started_at": run.started_at, "ended_at": run.ended_at}
    facts = {ID_TAG: run.key, **run.tags}
    facts |= {f"adaptlab.{name}": time.isoformat() for name, time in times.items() if time}
    for name, text in facts.items():
        group, _, own = name.partition(".")
        below.setdefault(group, {})[own] = text
    return {**_numbers(run.parameters), **below}


def _numbers(parameters: Mapping[str, str]) -> dict[str, object]:
    return {name: _number(text) for name, text in parameters.items()}


def _number(text: str) -> int | float | str:
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) and not isinstance(value, bool) else text


def _module() -> Any:  # Any: most of the package has no types that are kept
    os.environ["WANDB_ERROR_REPORTING"] = "false"  # its service would report errors by network
    try:
        return import_module("wandb")
    except ImportError as error:
        detail = (
            "Runs of W&B need the package wandb: `pip install wandb`, or adaptlab with the extra "
            "`wandb`."
        )
        raise ImportError(detail) from error
