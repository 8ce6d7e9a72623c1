"""Runs of the engine on files of this machine, without a worker."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from adaptlab.engine.observer import Observer
from adaptlab.running import run as engine
from adaptlab.runs.inputs import (
    LocalFile,
    PlacedAdapterFile,
    PlacedInputs,
    PlacedOtherWeights,
    SavedTraining,
)
from adaptlab.specs.resolved import Resolved
from adaptlab.weights.placed_folder import PlacedFolder


def local(path: Path) -> LocalFile:
    """A file, with its digest."""
    return LocalFile(sha256=hashlib.sha256(path.read_bytes()).hexdigest(), path=path)


def run(
    spec: Resolved,
    bases: Iterable[Path],
    scratch: Path,
    observer: Observer,
    device: str = "auto",
    resume: Path | None = None,
    *,
    folder: PlacedFolder | None = None,
    adapter: PlacedFolder | None = None,
    adapters: Iterable[PlacedAdapterFile] = (),
    datasets: Iterable[Path] = (),
    others: Iterable[PlacedOtherWeights] = (),
    **named: Any,
) -> None:
    """Run a spec on these inputs, with a state to resume from."""
    state = None if resume is None else SavedTraining(step=1, state=local(resume))
    inputs = PlacedInputs(
        bases=tuple(map(local, bases)),
        folder=folder,
        adapter=adapter,
        adapters=tuple(adapters),
        datasets=tuple(map(local, datasets)),
        others=tuple(others),
        resume=state,
    )
    engine.run(spec, inputs, scratch, observer, device, **named)
