"""Deletion of datasets that nothing needs any more."""

import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, cast, delete, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH
from sqlalchemy.orm import InstrumentedAttribute, Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import AnyReference, Datasets
from adaptlab.plugins.generated_words import NAME as GENERATED
from adaptlab.plugins.task import TASKS
from adaptlab_db.job_states import ACTIVE_STATES, LOST_STATES
from adaptlab_db.tables import BaseModel, Dataset, Job, Json, Study
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.models import datasets
from adaptlab_services.people import access

MOST_NAMED = 3
"""Base models, studies and jobs that the refusal of a deletion names, of each."""
NEXT_STEP = (
    "Cancel studies and jobs that you no longer need; their results stay. A base model always "
    "needs the datasets that it was trained on."
)
_BY_DIGEST = "$.**.dataset ? (@.digest == $digest)"
_WITH_TASKS = "$.** ? (exists(@.name) && exists(@.tasks))"
_BY_NAME = "$.**.dataset ? (@ == $name)"


class _Place(NamedTuple):
    project_id: int
    name: str
    owner_id: int
    digest: str
    shared_from: int | None = None


def delete_dataset(session: Session, name: str) -> None:
    """Delete a dataset, that of the request's project if several match.

    Its content is collected later unless something else has the same. Jobs that have ended keep
    everything that they recorded.

    Raises:
        Absent: no project, or several other projects, have such a dataset.
        Forbidden: the caller may not change it.
        StateConflict: a base model, a study or an unfinished job needs it, it is shared, or it is
            the generated one.
    """
    if name == GENERATED:
        raise StateConflict(
            f"The dataset {GENERATED!r} is part of every server and cannot be deleted. Delete "
            "one that was uploaded."
        )
    place = _place(session, name)
    access.check_change(session, place.owner_id, place.project_id)
    if place.shared_from is not None:
        raise StateConflict(
            f"The dataset {name!r} is shared by another project. Its owner there can take it back."
        )
    has_twin = _lock(session, place)
    if shared := datasets.shared_with(session, place.project_id, name):
        raise StateConflict(
            f"The dataset {name!r} is shared with {', '.join(shared)}. Take it back first."
        )
    # After the lock, so that jobs of simultaneous requests are there or do not find the dataset.
    uses = tuple(_uses(session, place, has_twin=has_twin))
    if uses:
        raise StateConflict(f"The dataset {name!r} is needed by {'; '.join(uses)}. {NEXT_STEP}")
    session.execute(
        delete(Dataset).where(Dataset.project_id == place.project_id, Dataset.name == name)
    )


def uses_in(session: Session, project_id: int, name: str, digest: str) -> tuple[str, ...]:
    """Return what needs a dataset in a project, in words.

    The project need not be visible.
    """
    place = _Place(project_id, name, 0, digest)
    twins = (
        Dataset.project_id == project_id, Dataset.artifact_sha256 == digest, Dataset.name != name
    )  # fmt: skip
    query = select(Dataset.name).where(*twins)
    has_twin = session.scalars(query, execution_options=ACROSS_PROJECTS).first() is not None
    return tuple(_uses(session, place, has_twin=has_twin))


def may_delete(session: Session, name: str) -> bool:
    """Return True if the caller may delete a dataset, for pages with a button."""
    try:
        place = _place(session, name)
        access.check_change(session, place.owner_id, place.project_id)
    except (Absent, Forbidden):
        return False
    return place.shared_from is None


def check_present(session: Session, datasets: Sequence[AnyReference], pointer: str) -> None:
    """Raise `InvalidSpec` if a dataset of an earlier job was deleted.

    The others cannot be deleted until the unit of work ends.
    """
    digests = [dataset.digest for dataset in datasets if dataset.name != GENERATED]
    if not digests:
        return
    mine = (Dataset.project_id == access.project_of(session), Dataset.artifact_sha256.in_(digests))
    query = select(Dataset.artifact_sha256).where(*mine)
    present = set(session.scalars(query.with_for_update(read=True, key_share=True)))
    problems = [
        Problem(
            pointer,
            "deleted_dataset",
            f"The dataset {dataset.name!r} (SHA-256 {dataset.digest}), which this job needs, was "
            "deleted. Upload the same content again.",
        )
        for dataset in datasets
        if dataset.name != GENERATED and dataset.digest not in present
    ]
    if problems:
        raise InvalidSpec(*problems)


def _place(session: Session, name: str) -> _Place:
    owned = (Dataset.project_id, Dataset.name, Dataset.owner_id)
    columns = (*owned, Dataset.artifact_sha256, Dataset.shared_from)
    rows = session.execute(select(*columns).where(Dataset.name == name))
    places = [_Place(*row) for row in rows]
    place = datasets.nearest(session, [(one.project_id, one.shared_from, one) for one in places])
    if place is None:
        raise Absent("dataset", name, session.scalars(select(Dataset.name)).all())
    return place


def _lock(session: Session, place: _Place) -> bool:
    """Lock the dataset; return True if another one has its content.

    Only datasets of the same project count.
    """
    query = (
        select(Dataset.name)
        .where(Dataset.project_id == place.project_id, Dataset.artifact_sha256 == place.digest)
        .order_by(Dataset.name)  # so that simultaneous deletions of two cannot deadlock
        .with_for_update()
    )
    names = session.scalars(query).all()
    if place.name not in names:  # somebody else has deleted it meanwhile
        raise Absent("dataset", place.name)
    return len(names) > 1


def _uses(session: Session, place: _Place, *, has_twin: bool) -> Iterator[str]:
    """Yield what needs the dataset, in words.

    Studies look datasets up by name when they are extended; jobs and base models need the content,
    which a twin has too.
    """
    bases = (
        select(BaseModel.name)
        .join(Job, Job.id == BaseModel.job_id)
        .where(BaseModel.project_id == place.project_id, Job.state.not_in(LOST_STATES))
        .where(_mentions(Job.resolved_spec, _BY_DIGEST, place))
        .order_by(BaseModel.name)
    )
    here = (Study.project_id == place.project_id, Study.cancelled_at.is_(None))
    naming = select(Study.name).where(*here, _mentions(Study.spec, _BY_NAME, place))
    jobs = (
        select(Job.id)
        .where(Job.project_id == place.project_id, Job.state.in_(ACTIVE_STATES))
        .where(_mentions(Job.resolved_spec, _BY_DIGEST, place))
        .order_by(Job.created_at, Job.id)
    )

    # The project is given, and need not be one that the session sees.
    def names(query: Select[Any]) -> Iterator[str]:  # Any: a name, or an id
        return map(str, session.scalars(query, execution_options=ACROSS_PROJECTS))

    if not has_twin:
        yield from named(names(bases), "base model", "base models")
    studies = {*names(naming), *_watching(session, place, here)}
    yield from named(sorted(studies), "study", "studies")
    if not has_twin:
        yield from named(names(jobs), "unfinished job", "unfinished jobs")


def _watching(
    session: Session, place: _Place, here: Sequence[ColumnElement[bool]]
) -> Iterator[str]:
    """Yield studies that look the dataset up by the name of a standard task."""
    path = cast(_WITH_TASKS, JSONPATH)
    query = select(Study.name, func.jsonb_path_query_array(Study.spec, path))
    query = query.where(*here, func.jsonb_path_exists(Study.spec, path))
    studies = session.execute(query, execution_options=ACROSS_PROJECTS).all()
    found = {name: _looked_up(choices, {}) for name, choices in studies}
    groups = datasets.facts_in(session, place.project_id, set[str]().union(*found.values()))
    for name, choices in studies:
        if place.name in found[name] or place.name in _looked_up(choices, groups):
            yield name


def _looked_up(choices: Sequence[object], known: Datasets) -> set[str]:
    """Return the datasets that tasks lead to; lists of tasks are passed over."""
    tasks = (typing.cast("Json", one) for one in choices if isinstance(one, dict))
    return {
        name
        for task in tasks
        if task["name"] in TASKS.names()
        for name in TASKS.get(task["name"]).looked_up(task, known)
    }


def _mentions(
    document: InstrumentedAttribute[Json], path: str, place: _Place
) -> ColumnElement[bool]:
    names = literal({"name": place.name, "digest": place.digest}, JSONB)
    return func.jsonb_path_exists(document, cast(path, JSONPATH), names)


def named(names: Iterable[str], one: str, several: str) -> Iterator[str]:
    """Yield the first few names as a part of a refusal, if there are any."""
    names = tuple(names)
    if names:
        shown, more = ", ".join(names[:MOST_NAMED]), len(names) - MOST_NAMED
        rest = f" and {more:,} more" if more > 0 else ""
        yield f"the {one if len(names) == 1 else several} {shown}{rest}"
