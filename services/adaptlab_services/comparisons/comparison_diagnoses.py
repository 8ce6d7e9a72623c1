"""Why methods of a table fail: the evidence of its rows, and what it says."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from uuid import UUID

from adaptlab.comparisons.comparison import Comparison
from adaptlab.comparisons.diagnosis import diagnose
from adaptlab.comparisons.diagnosis_evidence import BaseEvidence
from adaptlab.comparisons.diagnosis_rows import base_evidence, evidence
from adaptlab.comparisons.table_comparison import MethodDiagnosis
from adaptlab.plugins.task import Task
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab_services.comparisons.comparison_rows import Row, measured_row


def diagnoses(
    rows: Sequence[Row], comparison: Comparison, reference: Row | None
) -> Iterator[MethodDiagnosis]:
    """A diagnosis of every row that trains and could not be the best, or has not learned the task.

    `reference` shows that the task can be learned; it is not diagnosed itself. What is one training
    at several budgets is diagnosed once, and so are rows that compute the same function.
    """
    scored = [row for row in rows if row.evaluations()]
    task = _task(scored)
    if task is None:
        return
    by_label = {row.label: row for row in _once(scored)}
    measured = [one for row in by_label.values() if (one := measured_row(row)) is not None]
    named = None if reference is None else reference.label
    base, has_tasks = _base(scored), any(job.spec.base_tasks for r in scored for job in r.jobs)
    for one in evidence(measured, named, task, base, base_has_tasks=has_tasks):
        found = diagnose(one)
        labels = (found.method, *found.equivalent)
        behind = any(not _could_be_best(by_label[label], comparison) for label in labels)
        if found.cause != "none" or behind:
            row = by_label[found.method]
            yield MethodDiagnosis(
                method=row.method, label=row.label, budget=row.budget, diagnosis=found
            )


def _once(scored: Sequence[Row]) -> Iterator[Row]:
    """The rows without those that repeat the jobs of another."""
    known: set[tuple[UUID, ...]] = set()
    for row in scored:
        jobs = tuple(job.id for job in row.jobs)
        if jobs not in known:
            known.add(jobs)
            yield row


def _task(scored: Sequence[Row]) -> Task | None:
    """The task, None where a plug-in that declared it is not here any more."""
    resolved = scored[0].jobs[0].resolved if scored else None
    return resolved.task if isinstance(resolved, ResolvedAdapt) else None


def _could_be_best(row: Row, comparison: Comparison) -> bool:
    """Return True if nothing is shown to be better, at any of its budgets."""
    return all(
        one.could_be_best and one.label in (cell.best_successful or cell.best)
        for cell in comparison.cells
        for one in cell.rows
        if one.label == row.label
    )


def _base(scored: Sequence[Row]) -> BaseEvidence | None:
    """The base model alone on what it was pretrained on, over all jobs of the table."""
    own: dict[str, Task] = {}
    shares: dict[str, list[float]] = defaultdict(list)
    for job in (job for row in scored for job in row.jobs):
        if isinstance(job.resolved, ResolvedAdapt):
            stored = (json.dumps(task, sort_keys=True) for task in job.spec.base_tasks)
            own |= dict(zip(stored, job.resolved.base_tasks, strict=True))
        for one in job.base_scores:
            if not one.attached:
                shares[json.dumps(one.task, sort_keys=True)].append(one.correct / one.total)
    return base_evidence([(task, shares[key]) for key, task in own.items()])
