"""`/v1/results` and `/v1/attention`: queries over all jobs, and exports."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_answers.queries import ColumnView, FieldList, ResultRows
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.streaming import Pieces
from adaptlab_api.requests.dependencies import SessionDep, UnitsDep
from adaptlab_api.requests.describing import Described, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import OrderBy, PageSize, PageToken
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.querying.filtering import LONGEST_FILTER
from adaptlab_services.results import bulk_rows, result_groups, result_queries, row_formats
from adaptlab_services.results.bulk_rows import CURVE_COLUMNS
from adaptlab_services.results.result_queries import Question, Subject
from adaptlab_services.results.row_formats import MEDIA_TYPES, Batch, FileFormat
from adaptlab_services.results.varying_fields import with_varying

PIECE = 2**16
LONGEST_LIST = 4000

ResultFilter = Annotated[
    str,
    Query(
        alias="filter",
        max_length=LONGEST_FILTER,
        description='For example `task = "sort_descending" AND metrics.accuracy.mean > 0.9`.',
    ),
]
HeadFilter = Annotated[
    str,
    Query(
        alias="filter",
        max_length=LONGEST_FILTER,
        description="For example `layer = 2 AND divergence > 0.3 AND learned_mass > 0.5`.",
    ),
]
FieldNames = Annotated[
    str, Query(alias="fields", max_length=LONGEST_LIST, description="Columns, separated by commas.")
]
ResultFieldNames = Annotated[
    str,
    Query(
        alias="fields",
        max_length=LONGEST_LIST,
        description="Columns, separated by commas. `varying` stands for the fields in which the "
        "newest matches differ; alone, the usual columns precede them.",
    ),
]
Groupings = Annotated[
    str, Query(max_length=LONGEST_LIST, description="Fields, separated by commas; a row per group.")
]
MetricName = Annotated[str, Query(max_length=64, description="The metric to average over seeds.")]
CurveNames = Annotated[list[str], Query(max_length=64, description="Only these curves.")]
RowFormat = Annotated[
    Literal["json", "csv", "jsonl", "parquet"],
    Query(alias="format", description="Formats other than `json` are files with all matches."),
]
CurveFormat = Annotated[Literal["csv", "jsonl", "parquet"], Query(alias="format")]


_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FILES: Described = {
    200: {
        "description": "The rows, as JSON or as a file.",
        "content": {kind.partition(";")[0]: _BINARY for kind in MEDIA_TYPES.values()},
    }
}

router = api_router(tag="results")


@router.get("/results", response_model=ResultRows, responses=_FILES | failures())
@needs("reader")
def list_results(
    session: SessionDep,
    units: UnitsDep,
    filter_text: ResultFilter = "",
    order_by: OrderBy = "",
    field_names: ResultFieldNames = "",
    group_by: Groupings = "",
    metric: MetricName = result_groups.DEFAULT_METRIC,
    row_format: RowFormat = "json",
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """Query the results of jobs that succeeded; with `group_by`, their means over seeds.

    Groups are in the order of their means, the best first: of losses and perplexity the lowest.
    """
    question = Question("results", filter_text, order_by, _names(field_names))
    if not group_by:
        question = with_varying(session, question)
        return _answer(session, units, question, row_format, page_size, page_token)
    if order_by or field_names or page_token is not None:
        detail = "Groups have their own columns and order, and no pages."
        raise InvalidSpec(Problem("/query/group_by", "invalid_query", detail))
    groups = result_groups.groups(session, question, _names(group_by), metric)
    if row_format == "json":
        return json_answer(groups)
    batches = [[list(row.values()) for row in groups.data]]
    return file_of(groups.columns, batches, row_format, "groups")


@router.get("/attention", response_model=ResultRows, responses=_FILES | failures())
@needs("reader")
def list_heads(
    session: SessionDep,
    units: UnitsDep,
    filter_text: HeadFilter = "",
    order_by: OrderBy = "",
    field_names: FieldNames = "",
    row_format: RowFormat = "json",
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """Query the heads of attention maps, largest change first."""
    question = Question("attention", filter_text, order_by, _names(field_names))
    return _answer(session, units, question, row_format, page_size, page_token)


@router.get("/results/fields", response_model=FieldList, responses=failures())
@needs("reader")
def list_result_fields() -> Response:
    """List the fields for queries of jobs and results."""
    return json_answer(result_queries.fields_of("results"))


@router.get("/attention/fields", response_model=FieldList, responses=failures())
@needs("reader")
def list_head_fields() -> Response:
    """List the fields for queries of attention heads."""
    return json_answer(result_queries.fields_of("attention"))


@router.get("/results/curves", response_class=Response, responses=_FILES | failures())
@needs("reader")
def list_curves(
    units: UnitsDep,
    filter_text: ResultFilter = "",
    names: CurveNames = [],  # noqa: B006 - FastAPI copies it
    row_format: CurveFormat = "csv",
) -> Response:
    """Export all points of the learning curves of matching jobs."""
    batches = bulk_rows.all_curves(units, Question("results", filter_text), names)
    return file_of(CURVE_COLUMNS, batches, row_format, "curves")


def file_of(
    columns: Sequence[ColumnView], batches: Iterable[Batch], form: FileFormat, name: str
) -> Response:
    """Return rows as a file; text is streamed, Parquet is written first."""
    headers = {
        "Cache-Control": "no-store",
        "Content-Disposition": f'attachment; filename="{name}.{form}"',
        "X-Content-Type-Options": "nosniff",
    }
    if form == "parquet":
        content, size = _parquet(columns, batches)
        headers["Content-Length"] = str(size)
    else:
        content = row_formats.text_lines(columns, batches, form)
    return Pieces(content, 200, headers, MEDIA_TYPES[form])


def _answer(
    session: SessionDep,
    units: UnitsDep,
    question: Question,
    form: Literal["json"] | FileFormat,
    page_size: int,
    page_token: str | None,
) -> Response:
    if form == "json":
        return json_answer(result_queries.page(session, question, page_size, page_token))
    if page_token is not None:
        detail = "A file contains all matches. Leave out `page_token`."
        raise InvalidSpec(Problem("/query/page_token", "invalid_query", detail))
    columns, batches = bulk_rows.all_rows(units, question)
    name: Subject = question.subject
    return file_of(columns, batches, form, name)


def _parquet(
    columns: Sequence[ColumnView], batches: Iterable[Batch]
) -> tuple[Iterator[bytes], int]:
    """Return the content and size of a file that is deleted once it is open."""
    handle, name = tempfile.mkstemp(prefix="adaptlab-export-", suffix=".parquet")
    os.close(handle)
    path = Path(name)
    try:
        row_formats.write_parquet(columns, batches, path)
        size = path.stat().st_size
        file = path.open("rb")
    finally:
        path.unlink()

    def pieces() -> Iterator[bytes]:
        with file:
            while piece := file.read(PIECE):
                yield piece

    return pieces(), size


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()
