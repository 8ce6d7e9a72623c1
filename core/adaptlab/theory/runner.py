"""A job of theory checks: every report is told as soon as it is there."""

from collections.abc import Iterator
from pathlib import Path

import torch

from adaptlab.engine.checkpoint import read_bases
from adaptlab.engine.observer import Observer
from adaptlab.engine.plan import Plan
from adaptlab.errors import TrainingStopped
from adaptlab.resolve_theory import load_check
from adaptlab.results import TheoryChecked
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory_report import Check


def run_checks(plan: Plan, bases: tuple[Path, ...], observer: Observer) -> None:
    """Measure the checks of the plan's spec, on the first of `bases` where they need one.

    Raises `TrainingStopped` between two reports and `BadCheckpoint`.
    """
    for place, check in enumerate(_reports(plan, _base(plan, bases))):
        observer.emit(TheoryChecked(place=place, check=check))
        if observer.command() == "stop":
            raise TrainingStopped("The run was asked to stop between two theory checks.")


def _reports(plan: Plan, base: FrozenBase | None) -> Iterator[Check]:
    for stored in plan.spec.checks:
        check = load_check(stored)
        yield from MEASURES.get(check.name)(check, base, plan.spec.seeds[0])


def _base(plan: Plan, bases: tuple[Path, ...]) -> FrozenBase | None:
    """The weights of one replicate in float64."""
    if not plan.spec.base_replicates:
        return None
    files = tuple(bases[replicate] for replicate in plan.spec.base_replicates)
    weights = read_bases(files, plan.shape, torch.device("cpu"), torch.float64)
    return FrozenBase(plan.family, weights)
