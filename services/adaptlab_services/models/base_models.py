"""Base models: names for the weights that pretraining jobs make and imports bring in."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    bindparam,
    exists,
    func,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem, UnknownName
from adaptlab.specs.resolve import BaseModelFacts
from adaptlab.specs.resolved import ResolvedImport, ResolvedPretrain
from adaptlab_answers.models import BaseModelLinks, BaseModelView
from adaptlab_answers.paging import Page
from adaptlab_db.session import informed
from adaptlab_db.tables import BaseModel, Job, Project
from adaptlab_services import paging
from adaptlab_services.errors import Conflict, NotFound
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access

JsonObject = dict[str, object]
GIVEN_UP = ("failed", "cancelled")
MOST_KEPT = 1000  # base models that a process remembers, a few KB each
_READY = "ready_bases"


@dataclass(frozen=True, slots=True)
class UsableBase:
    """A base model that can be adapted: `job_id` makes it, and has made it if it `is_ready`."""

    facts: BaseModelFacts
    job_id: UUID
    is_ready: bool


def remembering(sessions: sessionmaker[Session]) -> sessionmaker[Session]:
    """The same sessions, which together remember base models that are ready."""
    kept: dict[tuple[int, str], UsableBase] = {}
    return informed(sessions, _READY, kept)


def remembered(session: Session, name: str) -> UsableBase:
    """`usable_base`, without a look at the database for one that was ready before.

    It would stay so, as only a name whose job has given up is ever taken over; but a database may
    forget commits. Who writes by it sees whether it is there still, and calls `forget` otherwise.
    """
    which = access.project_of(session), name
    kept: dict[tuple[int, str], UsableBase] = session.info.get(_READY, {})
    if (known := kept.get(which)) is not None:
        return known
    found = usable_base(session, name)
    if found.is_ready:
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[which] = found
    return found


def is_made_by(
    job_id: ColumnElement[UUID], project_id: ColumnElement[int], name: ColumnElement[str | None]
) -> ColumnElement[bool]:
    """The condition that a job has made the base model of that name, in a statement on tables."""
    maker = _JOBS.alias("maker")
    return exists().where(
        _BASES.c.project_id == project_id,
        _BASES.c.name == name,
        _BASES.c.job_id == job_id,
        maker.c.id == _BASES.c.job_id,
        maker.c.state == "succeeded",
    )


_JOBS, _BASES = (table.metadata.tables[table.__tablename__] for table in (Job, BaseModel))


def forget(session: Session, name: str) -> None:
    """Have the next who asks for a base model look at the database."""
    kept: dict[tuple[int, str], UsableBase] = session.info.get(_READY, {})
    kept.pop((access.project_of(session), name), None)


def facts(session: Session, name: str, pointer: str = "/base_model") -> BaseModelFacts:
    """What resolving an adaptation needs to know; raises `InvalidSpec` for a model of no use."""
    return usable_base(session, name, pointer).facts


def usable_base(session: Session, name: str, pointer: str = "/base_model") -> UsableBase:
    """A base model by name; raises `InvalidSpec` for a model of no use.

    A job that has yet to make it stays locked until the unit of work ends, so that it cannot
    succeed between this look at it and the moment at which a job that waits for it is written.
    """
    which = {"name": name, "project_id": access.project_of(session)}
    found = session.execute(_LOOK, which).one_or_none()
    if found is not None and found.state != "succeeded":  # which it would stay
        found = session.execute(_LOOK.with_for_update(read=True, of=Job), which).one_or_none()
    if found is None:
        raise _unknown(session, name, pointer)
    if found.state in GIVEN_UP:
        raise InvalidSpec(
            Problem(
                pointer=pointer,
                code="base_model_failed",
                detail=f"The job that makes {name!r} has {found.state}; see job {found.id}, "
                "or make it again under the same name.",
            )
        )
    return UsableBase(_facts(name, found, pointer), found.id, found.state == "succeeded")


def _facts(name: str, found: Any, pointer: str) -> BaseModelFacts:  # a row of `_LOOK`
    try:
        return BaseModelFacts(
            name=name,
            digest=found.spec_digest,
            family=found.family,
            task=found.task,
            replicates=found.replicates,
        )
    except InvalidSpec as error:
        detail = (
            f"The base model {name!r} cannot be used by this server: {error.problems[0].detail}"
        )
        raise InvalidSpec(Problem(pointer, "base_model_unread", detail)) from error


_LOOK = (
    select(
        Job.id,
        Job.state,
        Job.spec_digest,
        Job.resolved_spec["family"].label("family"),
        Job.resolved_spec["task"].label("task"),
        func.jsonb_array_length(Job.resolved_spec["seeds"]).label("replicates"),
    )
    .join(BaseModel, BaseModel.job_id == Job.id)
    .where(BaseModel.name == bindparam("name"), BaseModel.project_id == bindparam("project_id"))
)


def resolved_facts(
    name: str, digest: str, resolved: ResolvedPretrain | ResolvedImport
) -> BaseModelFacts:
    """The facts of the base model that a resolved pretraining or import makes."""
    return BaseModelFacts(
        name=name,
        digest=digest,
        family=resolved.family,
        task=resolved.task,
        replicates=len(resolved.seeds),
    )


def is_ready(session: Session, name: str) -> bool:
    """Whether the weights of a base model are there."""
    state = select(Job.state).join(BaseModel, BaseModel.job_id == Job.id)
    return session.execute(state.where(*_named(session, name))).scalar_one() == "succeeded"


def equal_to(session: Session, digest: str, preferred: str) -> str | None:
    """The name of a base model made, or in the making, by an equal spec; `preferred` if it is.

    Only of the same project: nobody learns from it what others have made.
    """
    return session.execute(
        select(BaseModel.name)
        .join(Job, Job.id == BaseModel.job_id)
        .where(Job.spec_digest == digest, Job.state.not_in(GIVEN_UP))
        .where(BaseModel.project_id == access.project_of(session))
        .order_by((BaseModel.name == preferred).desc(), BaseModel.created_at)
        .limit(1)
    ).scalar_one_or_none()


def register(session: Session, name: str, job_id: UUID) -> None:
    """Give the base model that a job will make its name.

    A name whose job failed or was cancelled is taken over. Raises `Conflict` for a taken name.
    """
    written = session.execute(
        insert(BaseModel)
        .values(project_id=access.project_of(session), name=name, job_id=job_id)
        .on_conflict_do_nothing()
        .returning(BaseModel.name)
    )
    if written.scalar_one_or_none() is None:
        check_free(session, name)
        taken_over = update(BaseModel).where(*_named(session, name))
        session.execute(taken_over.values(job_id=job_id))


def check_free(session: Session, name: str) -> None:
    """Raise `Conflict` if the name belongs to a model that is, or may yet be, of use."""
    row = session.execute(
        select(Job.id, Job.state)
        .join(BaseModel, BaseModel.job_id == Job.id)
        .where(*_named(session, name))
        .with_for_update(of=BaseModel)
    ).one_or_none()
    if row is not None and row.state not in GIVEN_UP:
        raise Conflict(
            f"The base model {name!r} already exists: job {row.id} has {row.state}. "
            "Use it, or choose another name.",
            state=row.state,
        )


def get(session: Session, name: str) -> BaseModelView:
    """One base model, of the request's own project if there are several of that name."""
    rows = session.execute(_rows().where(BaseModel.name == name)).all()
    row = access.nearest(session, [(found[0].project_id, found) for found in rows])
    if row is None:
        raise NotFound("base model", name)
    return _view(row)


def page(session: Session, page_size: int, page_token: str | None = None) -> Page[BaseModelView]:
    """Base models by name."""
    place = (BaseModel.name, BaseModel.project_id)
    query = _rows().order_by(*place).limit(paging.page_limit(page_size))
    if page_token is not None:
        query = query.where(tuple_(*place) > _after(paging.read(page_token, "base_models")))
    rows = session.execute(query).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        last = shown[-1][0]
        token = paging.written(Cursor(last.name, str(last.project_id)), "base_models")
    return Page(data=tuple(_view(row) for row in shown), next_page_token=token)


def usable(session: Session, most: int) -> tuple[BaseModelView, ...]:
    """The newest base models that a job of the request's own project could name."""
    here = BaseModel.project_id == access.project_of(session)
    query = _rows().where(here, Job.state.not_in(GIVEN_UP))
    newest = query.order_by(BaseModel.created_at.desc(), BaseModel.name).limit(most)
    return tuple(_view(row) for row in session.execute(newest))


def _named(session: Session, name: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The base model of that name in the project of the unit of work."""
    return BaseModel.name == name, BaseModel.project_id == access.project_of(session)


def _after(cursor: Cursor) -> tuple[str, int]:
    return cursor.key, cursor.row()


def _rows() -> Select[BaseModel, Job, str]:
    return (
        select(BaseModel, Job, Project.name)
        .join(Job, Job.id == BaseModel.job_id)
        .join(Project, Project.id == BaseModel.project_id)
    )


def _view(row: Row[BaseModel, Job, str]) -> BaseModelView:
    model, job, project = row
    seeds: list[Any] = job.resolved_spec["seeds"]  # as stored: a JSON array of integers
    return BaseModelView(
        name=model.name,
        project=project,
        state=job.state,
        ready=job.state == "succeeded",
        digest=job.spec_digest,
        family=job.resolved_spec["family"],
        task=job.resolved_spec["task"],
        parameters=job.trainable_parameters,
        replicates=len(seeds),
        job_id=job.id,
        created_at=model.created_at,
        links=BaseModelLinks(self=f"/v1/base-models/{model.name}", job=f"/v1/jobs/{job.id}"),
    )


def _unknown(session: Session, name: str, pointer: str) -> UnknownName:
    here = BaseModel.project_id == access.project_of(session)
    names = session.scalars(select(BaseModel.name).where(here).order_by(BaseModel.name)).all()
    return UnknownName(
        Problem(
            pointer=pointer,
            code="unknown_base_model",
            detail=(
                f"There is no base model named {name!r}; pretrain or import one, or give its spec "
                "here."
            ),
            allowed=tuple(names[:100]),
            nearest=tuple(get_close_matches(name, names, n=3, cutoff=0.5)),
        )
    )
