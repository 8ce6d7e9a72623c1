"""Diagnoses of the methods in a table that fail, from its rows' evidence."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from adaptlab.comparisons.comparison import Comparison
from adaptlab.comparisons.diagnosis import diagnose
from adaptlab.comparisons.diagnosis_evidence import BaseEvidence
from adaptlab.comparisons.diagnosis_rows import SharedSetting, base_evidence, evidence
from adaptlab.comparisons.metric_order import MetricOrder
from adaptlab.comparisons.table_comparison import MethodDiagnosis
from adaptlab.plugins.metric import METRICS, metric_named
from adaptlab.plugins.task import Task
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_services.comparisons.comparison_rows import ComparedRow, alone_of, measured_row


def diagnoses(
    rows: Sequence[ComparedRow], comparison: Comparison, reference: ComparedRow | None
) -> Iterator[MethodDiagnosis]:
    """Yield diagnoses of the rows that are not best or have not learned.

    Only rows that train something are diagnosed; `rows` include their controls, which are not.
    `reference` shows that the task can be learned; it is not diagnosed itself. One training at
    several budgets is diagnosed once, and so are rows that compute the same function.
    """
    scored = [row for row in rows if row.evaluations()]
    place = _place(rows, scored, comparison)
    if place is None:
        return
    by_label = {row.label: row for row in _once(scored)}
    metric = metric_named(place.metric)
    measured = [m for row in by_label.values() if (m := measured_row(row, metric)) is not None]
    for case in evidence(measured, None if reference is None else reference.label, place):
        diagnosis = diagnose(case)
        labels = (diagnosis.method, *diagnosis.equivalent)
        behind = any(not _could_be_best(by_label[label], comparison) for label in labels)
        if diagnosis.cause != "none" or behind:
            row = by_label[diagnosis.method]
            yield MethodDiagnosis(
                method=row.method, label=row.label, budget=row.budget, diagnosis=diagnosis
            )


def _place(
    rows: Sequence[ComparedRow], scored: Sequence[ComparedRow], comparison: Comparison
) -> SharedSetting | None:
    """Return what the rows have in common, None if the task is not installed."""
    task = _task(scored)
    if task is None:
        return None
    running = (row for row in rows if any(job.state not in TERMINAL_STATES for job in row.jobs))
    place = SharedSetting(
        task=task,
        chance=max(comparison.chance, task.constant_answer()),
        base=_base(scored),
        base_has_tasks=any(job.spec.base_tasks for row in scored for job in row.jobs),
        alone=alone_of([row for row in scored if row.role != "control"]),
        present=frozenset(row.method for row in rows),
        running=frozenset(row.method for row in running),
    )
    orders = (cell.by_metric for cell in comparison.cells)
    order = next((one for one in orders if one is not None and one.floor is not None), None)
    return place if order is None else _by_metric(place, order)


def _by_metric(place: SharedSetting, order: MetricOrder) -> SharedSetting:
    """Return the place of a table by a metric; its floor includes the base."""
    assert order.floor is not None
    chance = METRICS.get(order.metric).as_score(order.floor.value)
    return replace(place, metric=order.metric, chance=chance, alone=None)


def _once(scored: Sequence[ComparedRow]) -> Iterator[ComparedRow]:
    """Yield the rows without those that repeat the jobs of another."""
    seen: set[tuple[UUID, ...]] = set()
    for row in scored:
        jobs = tuple(job.id for job in row.jobs)
        if jobs not in seen:
            seen.add(jobs)
            yield row


def _task(scored: Sequence[ComparedRow]) -> Task | None:
    """Return the task, or None if its plug-in is no longer installed."""
    resolved = scored[0].jobs[0].resolved if scored else None
    return resolved.task if isinstance(resolved, ResolvedAdapt) else None


def _could_be_best(row: ComparedRow, comparison: Comparison) -> bool:
    """Return True if nothing is shown to be better, at any of its budgets."""
    return all(
        entry.could_be_best and entry.standing != "fails"
        for cell in comparison.cells
        for entry in cell.rows
        if entry.label == row.label
    )


def _base(scored: Sequence[ComparedRow]) -> BaseEvidence | None:
    """Return the base model's evidence on its own tasks, from all jobs."""
    own: dict[str, Task] = {}
    shares: dict[str, list[float]] = defaultdict(list)
    for job in (job for row in scored for job in row.jobs):
        if isinstance(job.resolved, ResolvedAdapt):
            stored = (json.dumps(task, sort_keys=True) for task in job.spec.base_tasks)
            own |= dict(zip(stored, job.resolved.base_tasks, strict=True))
        for score in job.base_scores:
            if not score.attached:
                shares[json.dumps(score.task, sort_keys=True)].append(score.correct / score.total)
    return base_evidence([(task, shares[key]) for key, task in own.items()])
