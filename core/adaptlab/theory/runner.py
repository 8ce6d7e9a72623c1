"""A job of theory checks: every report is told as soon as it is there."""

from collections.abc import Iterator
from pathlib import Path

import torch

from adaptlab.engine.checkpoint import read_bases
from adaptlab.engine.observer import Observer
from adaptlab.engine.plan import Plan
from adaptlab.errors import TrainingStopped
from adaptlab.measurements.results import TheoryChecked
from adaptlab.measurements.theory_report import Check
from adaptlab.plugins.adaptation import AdapterFile
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject


def run_checks(
    plan: Plan, bases: tuple[Path, ...], adapters: tuple[AdapterFile, ...], observer: Observer
) -> None:
    """Measure the checks of the plan's spec, on the first of `bases` where they need one.

    Those of adaptations measure each of `adapters` on the replicate of the base that it started
    from. Raises `TrainingStopped` between two reports, `BadCheckpoint`, and `InvalidSpec` where
    nothing was trained that could be measured.
    """
    for place, check in enumerate(_reports(plan, _subject(plan, bases, adapters))):
        observer.emit(TheoryChecked(place=place, check=check))
        if observer.command() == "stop":
            raise TrainingStopped("The run was asked to stop between two theory checks.")


def _reports(plan: Plan, subject: Subject) -> Iterator[Check]:
    for check in plan.spec.checks:
        yield from MEASURES.get(check.name)(check, subject)


def _subject(plan: Plan, bases: tuple[Path, ...], adapters: tuple[AdapterFile, ...]) -> Subject:
    """The base replicates that are needed, in float64, and what there is of each adaptation."""
    needed = {*plan.spec.base_replicates}
    for one in plan.spec.adaptations:
        needed |= {*one.base_replicates}
    loaded = {replicate: _base(plan, bases[replicate]) for replicate in sorted(needed)}
    return Subject(
        base=loaded[plan.spec.base_replicates[0]] if plan.spec.base_replicates else None,
        seed=plan.spec.seeds[0],
        adaptations=plan.spec.adaptations,
        files=adapters,
        bases=loaded,
    )


def _base(plan: Plan, file: Path) -> FrozenBase:
    """The weights of one replicate."""
    weights = read_bases((file,), plan.shape, torch.device("cpu"), torch.float64)
    return FrozenBase(plan.family, weights)
