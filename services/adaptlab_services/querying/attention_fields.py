"""Fields of attention heads: summaries of maps, and fields of their jobs."""

from functools import cache
from typing import Any

from sqlalchemy import Select

from adaptlab_db.tables import AttentionMapRow, AttentionSummaryRow, Job
from adaptlab_services.querying.fields import Column, Field, Fields, Kind
from adaptlab_services.querying.job_fields import job_fields

SOURCES = ("base", "adapted")


@cache
def attention_fields() -> Fields:
    """Return the fields of heads, followed by those of their jobs.

    `id` is that of the job.
    """
    jobs = job_fields()
    return Fields("attention", (*_own(), *jobs.fields), jobs.families)


def attention_joins(query: Select[Any]) -> Select[Any]:  # Any: the caller's columns
    """Join a query over heads to their maps and jobs.

    Only the latest attempt of a job counts.
    """
    latest = (Job.id == AttentionMapRow.job_id) & (Job.attempt == AttentionMapRow.attempt)
    heads = query.select_from(AttentionSummaryRow).join(
        AttentionMapRow, AttentionMapRow.id == AttentionSummaryRow.map_id
    )
    return heads.join(Job, latest)


def _own() -> tuple[Field, ...]:
    row, whole = AttentionSummaryRow, AttentionMapRow
    indexed = {"is_indexed": True}
    moved = "mean Jensen-Shannon divergence from the base's pattern, in nats"
    deviation = "largest difference from the base's relative attention (paper, equation 6)"
    learned = "mean attention on learned positions"
    return (
        _field(row.map_id, "integer", "map", "attention map, `id` in a job's list", **indexed),
        _field(row.layer, "integer", "layer", "counted from 0", **indexed),
        _field(row.head, "integer", "head", "counted from 0"),
        _field(whole.source, "text", "source", "model whose pattern it is", allowed=SOURCES),
        _field(whole.replicate, "integer", "replicate", "counted from 0"),
        _field(whole.seed, "integer", "seed", "the replicate's seed"),
        _field(
            whole.learned_positions, "integer", "learned_positions", "number of learned positions"
        ),
        _field(row.entropy, "number", "entropy", "entropy over content, mean of the rows, in nats"),
        _field(row.learned_mass, "number", "learned_mass", learned, **indexed),
        _field(row.divergence, "number", "divergence", moved, **indexed),
        _field(row.relative_deviation, "number", "relative_deviation", deviation),
    )


def _field(column: Column, kind: Kind, name: str, means: str, **more: Any) -> Field:
    return Field(name, kind, means, lambda _: column, **more)  # Any: the rest of Field's members
