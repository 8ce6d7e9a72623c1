"""Runs as offline runs of Weights & Biases, which `wandb sync` sends."""

import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from adaptlab.errors import TrackerRefused
from adaptlab_answers.trackers.tracked_runs import ID_TAG, TrackedRun

LONGEST_TAG = 64
STAMP = "adaptlab.stamp"
"""File next to a run with the digest of what was written."""
_FAILED = ("failed", "cancelled")
_KINDS = ("study", "job", "seed")
"""Types of runs by depth; a job's is its own kind."""


class WandbFolder:
    """A folder of offline runs, such as `wandb sync FOLDER` sends.

    A run's id is that of the study or job, which no other server gives; a seed's ends in its
    number. `wandb sync` replaces the run of that id, so nothing is doubled; a run that has not
    changed is not written again, and so not sent again either. Source: wandb 0.31.

    Args:
        folder: where runs are written, each in a folder of its own.
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
        kept, stamp = place / STAMP, f"{self._project} {run.stamp}"
        if kept.exists() and kept.read_text() == stamp:
            return
        part = place / ".part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        self._write(run, identity, part)
        (written,) = part.glob("wandb/offline-*/*.wandb")
        file = place / written.name
        for ending in ("synced", "syncstate"):  # which `wandb sync` leaves
            file.with_suffix(f".wandb.{ending}").unlink(missing_ok=True)
        written.replace(file)
        kept.write_text(stamp)
        shutil.rmtree(part, ignore_errors=True)

    def _write(self, run: TrackedRun, identity: str, part: Path) -> None:
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
        last: dict[str, float | str] = {"state": run.state}
        for step, figures in sorted(_by_step(run).items()):
            begun.log(figures, step=step)
            last |= figures
        if verdict := run.tags.get("adaptlab.verdict"):
            last["verdict"] = verdict
        begun.summary.update(last)
        begun.finish(exit_code=int(run.state in _FAILED))


def _by_step(run: TrackedRun) -> dict[int, dict[str, float]]:
    figures: dict[int, dict[str, float]] = {}
    for point in run.points:
        value = point.value if math.isfinite(point.value) else math.nan
        figures.setdefault(point.step, {})[point.name] = value
    return figures


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
