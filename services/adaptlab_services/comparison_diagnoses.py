"""Why methods of a table fail: the evidence of its rows, and what it says."""

import math
from collections.abc import Iterator, Sequence
from uuid import UUID

from pydantic import ValidationError

from adaptlab.comparison import Comparison
from adaptlab.diagnosis import (
    Evidence,
    MethodEvidence,
    chance_loss,
    diagnose,
    prefix_relaxations,
    trial_evidence,
)
from adaptlab.errors import InvalidSpec
from adaptlab.resolve import load_task
from adaptlab.task import Task
from adaptlab_services.comparison_rows import Row
from adaptlab_services.comparison_views import MethodDiagnosis


def diagnoses(
    rows: Sequence[Row], comparison: Comparison, reference: Row | None
) -> Iterator[MethodDiagnosis]:
    """A diagnosis of every row that trains and could not be the best, or has not learned the task.

    `reference` shows that the task can be learned; it is not diagnosed itself. What is one training
    at several budgets is diagnosed once.
    """
    scored = [row for row in rows if row.evaluations()]
    task = _task(scored)
    if task is None:
        return
    relaxations = prefix_relaxations()
    relaxed = next((row for row in scored if _method(row) in relaxations), None)
    known: set[tuple[UUID, ...]] = set()
    for row in scored:
        jobs = tuple(job.id for job in row.jobs)
        if row is reference or not row.parameters or jobs in known:
            continue
        known.add(jobs)
        found = diagnose(
            Evidence(
                subject=_evidence(row),
                reference=None if reference is None else _evidence(reference),
                relaxed=None if relaxed is None else _evidence(relaxed),
                chance_loss=chance_loss(task),
                chance_accuracy=task.chance(),
                counted_length=task.counted_length(),
            )
        )
        if found.cause != "none" or not _could_be_best(row, comparison):
            yield MethodDiagnosis(
                method=row.method, label=row.label, budget=row.budget, diagnosis=found
            )


def _task(scored: Sequence[Row]) -> Task | None:
    """The task, None where a plug-in that declared it is not here any more."""
    for row in scored:
        if (document := row.jobs[0].spec.task) is not None:
            try:
                return load_task(document)
            except (InvalidSpec, ValidationError):
                return None
    return None


def _method(row: Row) -> str:
    return str((row.jobs[0].spec.method or {}).get("name"))


def _could_be_best(row: Row, comparison: Comparison) -> bool:
    """At every budget at which it stands."""
    return all(
        one.could_be_best
        for cell in comparison.cells
        for one in cell.rows
        if one.label == row.label
    )


def _evidence(row: Row) -> MethodEvidence:
    moved = [job.first_layer_deviation for job in row.jobs]
    known = [one for one in moved if one is not None]
    accuracies = [one.accuracy for one in row.evaluations()]
    return MethodEvidence(
        method=row.label,
        trials=tuple(
            one
            for job in row.jobs
            for one in trial_evidence(
                job.replicates,
                job.half_losses,
                {one.replicate: one.accuracy for one in job.evaluations},
            )
        ),
        test_accuracy=math.fsum(accuracies) / len(accuracies),
        first_layer_deviation=max(known, default=None),
    )
