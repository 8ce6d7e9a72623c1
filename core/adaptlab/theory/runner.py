"""Execution of a job of theory checks, with each report emitted at once."""

from collections.abc import Iterator

import torch

from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.observer import Observer
from adaptlab.errors import TrainingStopped
from adaptlab.runs.events import TheoryChecked
from adaptlab.runs.inputs import PlacedAdapterFile
from adaptlab.runs.theory_report import Check
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject


def run_checks(
    plan: Plan, base: BaseWeights, adapters: tuple[PlacedAdapterFile, ...], observer: Observer
) -> None:
    """Measure the checks of the plan's spec.

    Those of a base use its first replicate, or each that the spec names. Checks of adaptations
    measure each of `adapters` on the base replicate that it started from.

    Raises:
        TrainingStopped: between two reports, if the observer commands it.
        BadCheckpoint: if a file is not what its name promises.
        InvalidSpec: if nothing was trained that could be measured.
    """
    for place, check in enumerate(_reports(plan, _subject(plan, base, adapters))):
        observer.emit(TheoryChecked(place=place, check=check))
        if observer.command() == "stop":
            raise TrainingStopped("The run was asked to stop between two theory checks.")


def _reports(plan: Plan, subject: Subject) -> Iterator[Check]:
    for check in plan.spec.checks:
        yield from MEASURES.get(check.name)(check.with_texts(plan.texts), subject)


def _subject(plan: Plan, base: BaseWeights, adapters: tuple[PlacedAdapterFile, ...]) -> Subject:
    """Load the base replicates that are needed, in float64."""
    needed = {*plan.spec.base_replicates}
    for adaptation in plan.spec.adaptations:
        needed |= {*adaptation.base_replicates}
    loaded = {
        replicate: FrozenBase(plan.family, base.read(plan, (replicate,), torch.float64))
        for replicate in sorted(needed)
    }
    return Subject(
        replicates=tuple(loaded[replicate] for replicate in plan.spec.base_replicates),
        seed=plan.spec.seeds[0],
        adaptations=plan.spec.adaptations,
        files=adapters,
        bases=loaded,
    )
