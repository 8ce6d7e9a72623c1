"""What can be asked about jobs and their results: the one table of their fields."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Double, Integer, Text, case, cast, func, or_, select
from sqlalchemy.dialects.postgresql import JSONB

from adaptlab_db.job_states import JOB_STATES
from adaptlab_db.tables import Job, Study, StudyJob
from adaptlab_services.lifecycle.job_metrics import METRICS
from adaptlab_services.querying.query_fields import Column, Family, Field, Fields, Joins, Kind

STATISTICS: dict[str, str] = {
    "mean": "the mean over seeds",
    "sd": "the standard deviation over seeds",
    "low": "the lower limit of the mean's 95 % interval",
    "high": "the upper limit of the mean's 95 % interval",
    "min": "the smallest of a seed",
    "max": "the largest of a seed",
    "n": "how many seeds",
}
_PATH = re.compile(r"spec((?:\.[A-Za-z0-9_-]{1,64}){1,6})")
_LABEL = re.compile(r"labels\.([A-Za-z0-9][A-Za-z0-9._/-]{0,62})")
_METRIC = re.compile(r"metrics\.([a-z_]+)\.([a-z]+)")


@cache
def job_fields() -> Fields:
    """The fields of jobs."""
    return Fields(
        "jobs",
        (*_what(), *_budget(), *_course(), _study()),
        (_metrics(), _labels(), _spec()),
    )


def _plain(column: Column, kind: Kind, name: str, means: str, **more: Any) -> Field:
    return Field(name, kind, means, lambda _: column, **more)  # Any: the rest of Field's members


def _what() -> tuple[Field, ...]:
    kinds = ("pretrain", "import", "adapt", "theory")
    indexed = {"is_indexed": True}
    name = Job.spec["name"].astext
    return (
        _plain(Job.id, "id", "id", "the job's id", also=("job",), **indexed),
        _plain(name, "text", "name", "name from its spec"),
        _plain(Job.kind, "text", "kind", "kind of job", allowed=kinds),
        _plain(Job.state, "text", "state", "state of the job", allowed=JOB_STATES, **indexed),
        _plain(Job.reason, "text", "reason", "reason for its state"),
        _plain(Job.base_model, "text", "base_model", "base model adapted", **indexed),
        _plain(Job.family, "text", "family", "family of the model"),
        _plain(Job.task, "text", "task", "task trained on", **indexed),
        _plain(Job.method, "text", "method", "adaptation method", **indexed),
        Field("owner", "text", "user who submitted it", lambda joins: joins.owner().name),
        _plain(Job.queue, "text", "queue", "queue that it waits in"),
        _plain(Job.spec_digest, "text", "spec_digest", "equal for equal jobs", **indexed),
    )


def _budget() -> tuple[Field, ...]:
    vector = Job.resolved_spec["budget"]
    counted = {
        "stored_bytes": "stored bytes of the adaptation",
        "extra_context_tokens": "positions added to every input",
        "flops_per_token": "floating-point operations per token in a forward pass",
    }
    return (
        _plain(
            Job.trainable_parameters,
            "integer",
            "budget.trainable",
            "trainable parameters",
            also=("trainable_parameters", "budget.trainable_parameters"),
            is_indexed=True,
        ),
        _plain(
            Job.budget_requested,
            "integer",
            "budget.requested",
            "requested budget, in trainable parameters",
            also=("budget_requested", "budget"),
        ),
        *(
            _plain(cast(vector[name].astext, Double), "number", f"budget.{name}", means)
            for name, means in counted.items()
        ),
    )


def _course() -> tuple[Field, ...]:
    used = {
        "training_seconds": "seconds of training",
        "evaluation_seconds": "seconds of evaluation",
        "peak_memory_bytes": "peak memory of the run",
    }
    seeds = func.jsonb_array_length(Job.resolved_spec["seeds"], type_=Integer())
    return (
        _plain(Job.priority, "integer", "priority", "priority in its queue"),
        _plain(Job.attempt, "integer", "attempt", "number of its latest attempt"),
        _plain(seeds, "integer", "seeds", "number of seeds"),
        _plain(Job.created_at, "time", "created_at", "time of submission", is_indexed=True),
        _plain(Job.started_at, "time", "started_at", "time of its first start"),
        _plain(Job.finished_at, "time", "finished_at", "time of its end"),
        *(Field(f"usage.{name}", "number", means, _usage(name)) for name, means in used.items()),
    )


def _usage(name: str) -> Callable[[Joins], Column]:
    return lambda joins: cast(joins.attempt().usage[name].astext, Double)


def _study() -> Field:
    first = (
        select(Study.name)
        .join(StudyJob, StudyJob.study_id == Study.id)
        .where(StudyJob.job_id == Job.id)
        .order_by(Study.created_at, Study.id)
        .limit(1)
        .correlate(Job)
        .scalar_subquery()
    )
    means = "study that it belongs to, by name or id; the first one is shown"
    return Field("study", "text", means, lambda _: first, is_indexed=True, among=in_studies)


def in_studies(names: Sequence[str]) -> ColumnElement[bool]:
    """Whether a job belongs to one of these studies, which are named by name or id."""
    lowered = [name.lower() for name in names]
    named = or_(Study.name.in_(names), cast(Study.id, Text).in_(lowered))
    members = select(StudyJob.job_id).join(Study, Study.id == StudyJob.study_id).where(named)
    return Job.id.in_(members)


def _metrics() -> Family:
    def of(name: str) -> Field | None:
        match = _METRIC.fullmatch(name)
        if match is None or match[1] not in METRICS or match[2] not in STATISTICS:
            return None
        metric, statistic = match[1], match[2]

        def column(joins: Joins) -> Column:
            return getattr(joins.metric(metric), statistic)

        means = f"{METRICS[metric]}: {STATISTICS[statistic]}"
        indexed = statistic == "mean"
        kind: Kind = "integer" if statistic == "n" else "number"
        return Field(name, kind, means, column, is_indexed=indexed)

    return Family(
        prefix="metrics.",
        pattern="metrics.<name>.<statistic>",
        means=f"metric of a succeeded job over its seeds; names: {', '.join(METRICS)}; "
        f"statistics: {', '.join(STATISTICS)}",
        of=of,
        known=tuple(f"metrics.{metric}.{one}" for metric in METRICS for one in STATISTICS),
        kind="number",
        is_indexed=True,
    )


def _labels() -> Family:
    def of(name: str) -> Field | None:
        match = _LABEL.fullmatch(name)
        if match is None:
            return None
        label = match[1]

        def among(texts: Sequence[str]) -> ColumnElement[bool]:
            return or_(*(Job.labels.contains({label: text}) for text in texts))

        column = Job.labels[label].astext
        means = f"the label {label!r}"
        return Field(name, "text", means, lambda _: column, is_indexed=True, among=among)

    means = "label of the job"
    return Family("labels.", "labels.<name>", means, of, is_indexed=True)


def _spec() -> Family:
    def of(name: str) -> Field | None:
        match = _PATH.fullmatch(name)
        if match is None:
            return None
        place = tuple(match[1].removeprefix(".").split("."))
        value = Job.resolved_spec[place]
        is_number = func.jsonb_typeof(cast(value, JSONB)) == "number"
        number = case((is_number, cast(value.astext, Double)))
        means = "field of the resolved spec"
        return Field(
            name, "any", means, lambda _: value.astext, number=lambda _: number, path=place
        )

    means = "field of the resolved spec, such as spec.method.rank or spec.training.steps"
    return Family("spec.", "spec.<path>", means, of, kind="any")
