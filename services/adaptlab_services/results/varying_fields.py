"""Fields that differ between results: labels, and members of specs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab_db.tables import Job
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Field, Joins
from adaptlab_services.querying.job_fields import job_fields
from adaptlab_services.results.result_queries import LISTINGS, Question

VARYING = "varying"
"""Stands for the fields that differ, among the columns that are asked for."""
MOST_READ = 200
"""The newest matches that are compared."""
MOST_VARYING = 8
_PLAIN = ("project", "owner", "learning_rates", "seeds")
_MEMBERS = ("training", "task", "method")
"""Members of resolved specs whose numbers and texts are compared."""
_ALREADY_SHOWN = frozenset({"spec.task.name", "spec.method.name"})

Document = Mapping[str, object]


def varying_fields(session: Session, question: Question) -> tuple[str, ...]:
    """Return the fields in which the newest matches of a query differ.

    Labels also differ if some jobs lack them. Other fields need two values, because each method has
    settings that others lack.

    Raises:
        InvalidSpec: the filter is invalid.
    """
    listing, joins = LISTINGS["results"], Joins(session)
    plain = [_named(name) for name in _PLAIN]
    members = [Job.resolved_spec[name] for name in _MEMBERS]
    columns = (*members, *(field.shown(joins) for field in plain))
    holds = condition(question.filter_text, listing.fields, joins)
    query = joins.onto(listing.start(select(Job.labels, *columns)).where(*listing.always()))
    query = query if holds is None else query.where(holds)
    rows = session.execute(query.order_by(Job.created_at.desc()).limit(MOST_READ)).all()
    labels = _differing((row[0] for row in rows), counts_absent=True)
    facts = _differing(_facts(row[1:]) for row in rows)
    names = (*(f"labels.{name}" for name in sorted(labels)), *facts)
    known = (name for name in names if name not in _ALREADY_SHOWN and job_fields().find(name))
    return tuple(known)[:MOST_VARYING]


def with_varying(session: Session, question: Question) -> Question:
    """Return a query with the fields that differ in place of `varying`.

    Alone, it follows the usual columns.

    Raises:
        InvalidSpec: the filter is invalid.
    """
    asked = question.fields
    if VARYING not in asked:
        return question
    before = asked[: asked.index(VARYING)] if len(asked) > 1 else LISTINGS["results"].usual_fields
    after = asked[asked.index(VARYING) + 1 :]
    named = {*before, *after}
    found = (name for name in varying_fields(session, question) if name not in named)
    return replace(question, fields=(*before, *found, *after))


def _named(name: str) -> Field:
    return job_fields().named(name, "fields")


def _facts(row: Any) -> Document:  # Any: a part of a database row
    """Return the fields of one job that are compared, the plain ones first."""
    members, plain = row[: len(_MEMBERS)], row[len(_MEMBERS) :]
    facts: dict[str, object] = dict(zip(_PLAIN, plain, strict=True))
    for name, member in zip(_MEMBERS, members, strict=True):
        facts.update(_leaves(f"spec.{name}", member))
    return {name: value for name, value in facts.items() if value is not None}


def _leaves(place: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the numbers and texts below a place; lists are left out."""
    if _is_document(value):
        for name, member in value.items():
            yield from _leaves(f"{place}.{name}", member)
    elif isinstance(value, str | int | float):
        yield place, value


def _differing(documents: Iterable[Document], *, counts_absent: bool = False) -> list[str]:
    seen = list(documents)
    names = dict.fromkeys(name for document in seen for name in document)
    return [name for name in names if _differs(seen, name, counts_absent=counts_absent)]


def _differs(documents: list[Document], name: str, *, counts_absent: bool) -> bool:
    values = {repr(document.get(name)) for document in documents}
    return len(values if counts_absent else values - {repr(None)}) > 1


def _is_document(value: object) -> TypeGuard[Document]:
    return isinstance(value, dict)
