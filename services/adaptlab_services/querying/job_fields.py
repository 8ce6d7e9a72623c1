"""Fields of jobs and their results, for filters, orders and groupings."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Double,
    Integer,
    Text,
    case,
    cast,
    distinct,
    func,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, JSONPATH
from sqlalchemy.orm import InstrumentedAttribute

from adaptlab_db import tables
from adaptlab_db.tables import Job, Study, StudyJob
from adaptlab_services.lifecycle.metric_summaries import OF_EVERY_TASK, catalogue
from adaptlab_services.querying.fields import Column, Field, FieldFamily, Fields, Joins, Kind

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
_METRIC = re.compile(r"metrics\.([a-z0-9_]+)\.([a-z]+)")


@cache
def job_fields() -> Fields:
    """The fields of jobs."""
    return Fields(
        "jobs",
        (*_columns(), *_computed(), _study()),
        (_metrics(), _labels(), _spec()),
    )


def _columns() -> Iterator[Field]:
    """The columns of jobs, as `adaptlab_db.tables.Job` declares them."""
    for column, field in tables.column_fields().items():
        attribute: InstrumentedAttribute[Any] = getattr(Job, column)  # Any: of several types
        yield Field(
            field.name or column,
            _KINDS[attribute.type.python_type],
            field.means,
            _constant(attribute),
            field.allowed,
            field.also,
            field.is_indexed,
        )


_KINDS: Mapping[type, Kind] = MappingProxyType(
    {str: "text", int: "integer", datetime: "time", UUID: "id"}
)


def _computed() -> tuple[Field, ...]:
    """Return fields that follow from a job's spec, owner or latest attempt."""
    budget = Job.resolved_spec["budget"]
    seeds = func.jsonb_array_length(Job.resolved_spec["seeds"], type_=Integer())
    counted = {
        "stored_bytes": "stored bytes of the adaptation",
        "extra_context_tokens": "positions added to every input",
        "flops_per_token": "floating-point operations per token in a forward pass",
    }
    used = {
        "training_seconds": "seconds of training",
        "evaluation_seconds": "seconds of evaluation",
        "peak_memory_bytes": "peak memory of the run",
    }
    return (
        Field("name", "text", "its name, or that of its base model", _constant(name_of_job())),
        Field("owner", "text", "user who submitted it", lambda joins: joins.owner().name),
        Field("project", "text", "project that it belongs to", lambda joins: joins.project().name),
        Field("seeds", "integer", "number of seeds", _constant(seeds)),
        _learning_rates(),
        *(
            Field(f"budget.{key}", "number", means, _constant(cast(budget[key].astext, Double)))
            for key, means in counted.items()
        ),
        *(Field(f"usage.{key}", "number", means, _usage(key)) for key, means in used.items()),
    )


def _learning_rates() -> Field:
    path = cast("$.training.trials[*].learning_rate", JSONPATH)
    rate = func.jsonb_path_query(Job.resolved_spec, path, type_=JSONB()).column_valued("rate")
    rates = func.array_agg(distinct(rate), type_=ARRAY(JSONB))
    several = func.to_jsonb(func.array_to_string(rates, ", ", type_=Text()), type_=JSONB())
    value = case((func.cardinality(rates) == 1, rates[1]), else_=several)
    shown = select(value).where(Job.id.is_not(None)).correlate(Job).scalar_subquery()
    as_text = func.jsonb_path_query_first(shown, cast("$", JSONPATH), type_=JSONB()).op("#>>")(
        cast([], ARRAY(Text))
    )
    number = case((func.jsonb_typeof(shown) == "number", cast(as_text, Double)))
    return Field(
        "learning_rates",
        "any",
        "learning rate of its trials, or several",
        _constant(as_text),
        number=_constant(number),
        json=_constant(shown),
    )


def name_of_job() -> ColumnElement[str]:
    """Return the name of a job, or of the base model that it creates."""
    return func.coalesce(Job.name, Job.spec["name"].astext, type_=Text())


def _constant(column: Column) -> Callable[[Joins], Column]:
    return lambda _: column


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
    """Return the condition that a job belongs to one of these studies.

    The studies are given by name or id.
    """
    lowered = [name.lower() for name in names]
    named = or_(Study.name.in_(names), cast(Study.id, Text).in_(lowered))
    members = select(StudyJob.job_id).join(Study, Study.id == StudyJob.study_id).where(named)
    return Job.id.in_(members)


def _metrics() -> FieldFamily:
    known = catalogue()

    def of(name: str) -> Field | None:
        match = _METRIC.fullmatch(name)
        if match is None or match[1] not in known or match[2] not in STATISTICS:
            return None
        metric, statistic = match[1], match[2]

        def column(joins: Joins) -> Column:
            return getattr(joins.metric(metric), statistic)

        means = f"{known[metric]}: {STATISTICS[statistic]}"
        indexed = statistic == "mean"
        kind: Kind = "integer" if statistic == "n" else "number"
        return Field(name, kind, means, column, is_indexed=indexed)

    return FieldFamily(
        prefix="metrics.",
        pattern="metrics.<name>.<statistic>",
        means=f"metric of a succeeded job over its seeds; names: {', '.join(OF_EVERY_TASK)}, "
        "or a task's `metric`; "
        f"statistics: {', '.join(STATISTICS)}",
        of=of,
        known=tuple(
            f"metrics.{metric}.{statistic}" for metric in known for statistic in STATISTICS
        ),
        kind="number",
        is_indexed=True,
    )


def _labels() -> FieldFamily:
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
    return FieldFamily("labels.", "labels.<name>", means, of, is_indexed=True)


def _spec() -> FieldFamily:
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
            name,
            "any",
            means,
            lambda _: value.astext,
            number=lambda _: number,
            path=place,
            json=lambda _: cast(value, JSONB),
        )

    means = "field of the resolved spec, such as spec.method.rank or spec.training.steps"
    return FieldFamily("spec.", "spec.<path>", means, of, kind="any")
