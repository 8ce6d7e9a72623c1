"""Queries over results and attention heads: chosen fields, page by page."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_answers.queries import Cell, ColumnView, FieldList, FieldView, ResultRows
from adaptlab_db.tables import AttentionSummaryRow, Job
from adaptlab_services import paging
from adaptlab_services.querying.attention_fields import attention_fields, attention_joins
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Column, Field, Fields, Joins
from adaptlab_services.querying.job_fields import job_fields
from adaptlab_services.querying.ordering import cursor_of, ordering

Subject = Literal["results", "attention"]
MOST_FIELDS = 64
OF_RESULTS = (
    "id", "kind", "base_model", "task", "method", "budget.trainable", "budget.requested",
    "metrics.accuracy.n", "metrics.accuracy.mean", "metrics.accuracy.sd", "metrics.accuracy.low",
    "metrics.accuracy.high", "owner", "finished_at",
)  # fmt: skip
OF_ATTENTION = (
    "map", "layer", "head", "source", "replicate", "seed", "entropy", "learned_mass",
    "divergence", "relative_deviation", "id", "base_model", "task", "method", "budget.trainable",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """A query; empty `fields` and `order_by` select the defaults."""

    subject: Subject
    filter_text: str = ""
    order_by: str = ""
    fields: tuple[str, ...] = ()

    def bound(self) -> tuple[str, ...]:
        """Return the parameters that a page token is bound to."""
        return (self.subject, self.filter_text, self.order_by)


def page(
    session: Session,
    question: Question,
    page_size: int = paging.DEFAULT_PAGE_SIZE,
    page_token: str | None = None,
) -> ResultRows:
    """Return one page of rows; raises `InvalidSpec` for an invalid query."""
    return rows(session, question, paging.page_limit(page_size) - 1, page_token)


def rows(session: Session, question: Question, most: int, page_token: str | None) -> ResultRows:
    """Return the next `most` rows; rows without the sorted value are left out."""
    chosen = chosen_fields(question, LISTINGS[question.subject])
    query = _query(session, question, chosen, page_token)
    read = session.execute(query.limit(most + 1)).all()
    shown = read[:most]
    token = None
    if len(read) > most:
        last = shown[-1][len(chosen) :]
        token = paging.written(cursor_of(last[0], last[1:]), *question.bound())
    return ResultRows(
        columns=columns_of(chosen),
        data=tuple(_row(chosen, row) for row in shown),
        next_page_token=token,
    )


def _query(
    session: Session, question: Question, chosen: Sequence[Field], page_token: str | None
) -> Select[*tuple[Any, ...]]:
    """Select the chosen fields, the sorted value and the rows' identity.

    The rows follow the one that the token names.
    """
    listing = LISTINGS[question.subject]
    order = ordering(question.order_by or listing.usual_order, listing.fields)
    joins = Joins(session)
    holds = condition(question.filter_text, listing.fields, joins)
    key = order.field.column(joins)
    place = (key, *listing.identity())
    columns = [field.shown(joins) for field in chosen]
    query = joins.onto(listing.start(select(*columns, *place)).where(*listing.always()))
    if holds is not None:
        query = query.where(holds)
    if order.field.name not in listing.never_null:
        query = query.where(key.is_not(None))
    if page_token is not None:
        cursor = paging.read(page_token, *question.bound())
        query = query.where(order.after(place, cursor, listing.read_identity))
    return query.order_by(*order.clause(place))


def fields_of(subject: Subject) -> FieldList:
    """Return the fields of a subject, families of fields last."""
    fields = LISTINGS[subject].fields
    plain = tuple(
        FieldView(
            name=field.name,
            type=shown_type(field),
            means=field.means,
            indexed=field.is_indexed,
            allowed=field.allowed,
            also=field.also,
        )
        for field in fields.fields
    )
    families = tuple(
        FieldView(
            name=family.pattern,
            type=family.kind,
            means=family.means,
            indexed=family.is_indexed,
            allowed=family.known,
        )
        for family in fields.families
    )
    return FieldList(data=(*plain, *families))


@dataclass(frozen=True, slots=True)
class Listing:
    """The way to read the rows of a subject.

    `identity` distinguishes rows with the same sorted value; `read_identity` reads it from a token.
    """

    fields: Fields
    start: Callable[[Select[Any]], Select[Any]]  # Any: the columns of the query
    identity: Callable[[], tuple[Column, ...]]
    read_identity: Callable[[Sequence[str]], tuple[UUID | int, ...]]
    always: Callable[[], tuple[Any, ...]]  # conditions
    usual_fields: tuple[str, ...]
    usual_order: str
    never_null: tuple[str, ...]


LISTINGS: dict[Subject, Listing] = {
    "results": Listing(
        fields=job_fields(),
        start=lambda query: query.select_from(Job),
        identity=lambda: (Job.id,),
        read_identity=lambda texts: tuple(UUID(text) for text in texts),
        always=lambda: (Job.state == "succeeded",),
        usual_fields=OF_RESULTS,
        usual_order="-created_at",
        never_null=("created_at", "budget.trainable"),
    ),
    "attention": Listing(
        fields=attention_fields(),
        start=attention_joins,
        identity=lambda: (
            AttentionSummaryRow.map_id,
            AttentionSummaryRow.layer,
            AttentionSummaryRow.head,
        ),
        read_identity=lambda texts: tuple(int(text) for text in texts),
        always=tuple,
        usual_fields=OF_ATTENTION,
        usual_order="-divergence",
        never_null=("divergence", "learned_mass", "entropy", "relative_deviation", "layer"),
    ),
}


def chosen_fields(question: Question, listing: Listing) -> tuple[Field, ...]:
    """Return the requested fields in their order; raises `InvalidSpec`."""
    names = question.fields or listing.usual_fields
    if len(names) > MOST_FIELDS:
        detail = f"The query names {len(names)} fields. The limit is {MOST_FIELDS}. Name fewer."
        raise _refused("fields", detail)
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)[:64]
        raise _refused("fields", f"The field {repeated!r} is named twice. Name each field once.")
    return tuple(listing.fields.named(name, "fields") for name in names)


def columns_of(chosen: Sequence[Field]) -> tuple[ColumnView, ...]:
    """Return the columns of an answer with these fields."""
    return tuple(ColumnView(name=field.name, type=shown_type(field)) for field in chosen)


def _row(chosen: Sequence[Field], row: Sequence[object]) -> dict[str, Cell]:
    return {field.name: cell(value) for field, value in zip(chosen, row, strict=False)}


def cell(value: object) -> Cell:
    """Return a database value as JSON; None for a number that is not finite."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case datetime():
            return value.astimezone(UTC).isoformat()
        case bool() | list() | dict():  # JSON of a spec
            return json.dumps(value, ensure_ascii=False)
        case None | int() | str():
            return value
        case _:
            return str(value)


def shown_type(field: Field) -> str:
    """Return the type of a field's values in an answer."""
    return "text" if field.kind == "any" else field.kind


def _refused(parameter: str, detail: str) -> InvalidSpec:
    return InvalidSpec(Problem(f"/query/{parameter}", "invalid_query", detail))
