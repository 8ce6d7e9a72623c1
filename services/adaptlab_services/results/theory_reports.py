"""Reports of theory checks for many jobs."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from adaptlab.runs.theory_report import Check
from adaptlab_answers.documents import JsonObject
from adaptlab_db.tables import Job, TheoryReportRow

SALIENCY = "saliency"
MOST_CHECKS = 8
"""Jobs whose checks of saliency are looked at, the newest first."""
_SHARES = ("into_labels", "from_labels", "others")


def reports_of(session: Session, job_ids: Collection[UUID]) -> Mapping[UUID, tuple[Check, ...]]:
    """Return the reports of each job's latest attempt, in measured order."""
    fields = tuple(Check.model_fields)
    columns = [getattr(TheoryReportRow, name) for name in fields]
    rows = session.execute(
        select(TheoryReportRow.job_id, *columns)
        .join(Job, (Job.id == TheoryReportRow.job_id) & (Job.attempt == TheoryReportRow.attempt))
        .where(TheoryReportRow.job_id.in_(job_ids))
        .order_by(TheoryReportRow.job_id, TheoryReportRow.place)
    )
    by_job: dict[UUID, list[Check]] = defaultdict(list)
    for job_id, *values in rows:
        by_job[job_id].append(Check.model_validate(dict(zip(fields, values, strict=True))))
    return {job_id: tuple(reports) for job_id, reports in by_job.items()}


@dataclass(frozen=True, slots=True)
class LayerSaliency:
    """Mean shares of saliency by layer, as a check has measured them.

    `into_labels` flows from the text into label words, `from_labels` from these to the end of the
    query, and `others` between other tokens.
    """

    job_id: UUID
    samples: int
    into_labels: tuple[float, ...]
    from_labels: tuple[float, ...]
    others: tuple[float, ...]


def saliency_of(
    session: Session, base_model: str, digest: str, task: JsonObject
) -> LayerSaliency | None:
    """Return what the newest check of a base model on a task has measured.

    `digest` is that of the base model. None if no check with that task alone has measured it.
    """
    checks = Job.resolved_spec["checks"]
    holds: tuple[ColumnElement[bool], ...] = (
        Job.kind == "theory",
        Job.state == "succeeded",
        Job.base_model == base_model,
        Job.resolved_spec["base_digest"].as_string() == digest,
        checks.contains([{"name": SALIENCY, "task": task}]),
    )
    query = select(Job.id, checks).where(*holds).order_by(Job.created_at.desc(), Job.id.desc())
    for job_id, asked in session.execute(query.limit(MOST_CHECKS)):
        if [one["name"] for one in asked].count(SALIENCY) != 1:
            continue  # reports do not say which of the tasks they are about
        for report in reports_of(session, [job_id]).get(job_id, ()):
            if report.name == f"{SALIENCY}.first-layer":
                return _layers(job_id, report)
    return None


def _layers(job_id: UUID, report: Check) -> LayerSaliency | None:
    into, out_of, others = (_numbers(report, f"{name}_by_layer") for name in _SHARES)
    samples = report.details.get("samples")
    if not isinstance(samples, int) or not len(into) == len(out_of) == len(others):
        return None
    return LayerSaliency(job_id, samples, into, out_of, others)


def _numbers(report: Check, name: str) -> tuple[float, ...]:
    value = report.details.get(name)
    return value if isinstance(value, tuple) else ()
