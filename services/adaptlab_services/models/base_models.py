"""Base models: names for weights from pretraining and import jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    bindparam,
    case,
    exists,
    func,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, aliased, sessionmaker

from adaptlab.errors import InvalidSpec, Problem, UnknownName
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolved import ResolvedImport, ResolvedPretrain
from adaptlab.weights.hub_name import HubOrigin
from adaptlab.weights.model_folder import TOKENISER
from adaptlab_answers.models import BaseModelLinks, BaseModelView
from adaptlab_answers.paging import Page
from adaptlab_db.job_states import LOST_STATES
from adaptlab_db.session import informed
from adaptlab_db.tables import BaseModel, CheckpointRow, Job, Project
from adaptlab_db.visibility import ACROSS_PROJECTS, VISIBLE
from adaptlab_services import paging
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access

JsonObject = dict[str, object]
MOST_KEPT = 1000  # base models that a process remembers, a few KB each
LONGEST_WAIT = "5s"
_READY = "ready_bases"


@dataclass(frozen=True, slots=True)
class UsableBase:
    """A base model that can be adapted, and the job that creates it.

    `is_ready` is true if that job has succeeded.
    """

    facts: BaseModelFacts
    job_id: UUID
    is_ready: bool


def remembering(sessions: sessionmaker[Session]) -> sessionmaker[Session]:
    """Return the same sessions, which share a cache of ready base models."""
    cache: dict[tuple[int, str], UsableBase] = {}
    return informed(sessions, _READY, cache)


def remembered(session: Session, name: str) -> UsableBase:
    """Return the same as `usable_base`, from the cache if it was ready before.

    A ready base model stays ready, because only names of failed or cancelled jobs are taken over.
    However, it can be deleted, and a database can lose commits: the caller must check
    `is_still_ready` when it writes, and call `forget` otherwise.
    """
    key = access.project_of(session), name
    cache: dict[tuple[int, str], UsableBase] = session.info.get(_READY, {})
    if (cached := cache.get(key)) is not None:
        return cached
    base = usable_base(session, name)
    if base.is_ready:
        if len(cache) >= MOST_KEPT:
            cache.clear()
        cache[key] = base
    return base


def is_still_ready(session: Session, name: str, job_id: UUID) -> bool:
    """Return True if a remembered base model is still in the database.

    The job that created it must be `job_id`.
    """
    key = {"name": name, "project_id": access.project_of(session), "job_id": job_id}
    return session.execute(_IS_READY, key, execution_options=ACROSS_PROJECTS).scalar_one()


# Of the tables, because the ORM takes twice the time for the same statement.
_JOBS, _BASES = (table.metadata.tables[table.__tablename__] for table in (Job, BaseModel))
_IS_READY = select(
    exists().where(
        _BASES.c.project_id == bindparam("project_id"),
        _BASES.c.name == bindparam("name"),
        _BASES.c.job_id == bindparam("job_id"),
        _JOBS.c.id == _BASES.c.job_id,
        _JOBS.c.state == "succeeded",
    )
)


def forget(session: Session, name: str) -> None:
    """Remove a base model from the cache, so that it is queried again."""
    cache: dict[tuple[int, str], UsableBase] = session.info.get(_READY, {})
    cache.pop((access.project_of(session), name), None)


def facts(session: Session, name: str, pointer: str = "/base_model") -> BaseModelFacts:
    """Return the facts that resolving an adaptation needs.

    Raises:
        InvalidSpec: there is no such base model, or its job failed or was cancelled.
    """
    return usable_base(session, name, pointer).facts


def usable_base(session: Session, name: str, pointer: str = "/base_model") -> UsableBase:
    """Return a base model by name.

    If its job has not succeeded yet, the job is locked until the unit of work ends. It then cannot
    succeed between this query and the moment at which a waiting job is written.

    Raises:
        InvalidSpec: there is no such base model, or its job failed or was cancelled.
    """
    key = {"name": name, "project_id": access.project_of(session)}
    row = session.execute(_LOOK, key).one_or_none()
    if row is not None and row.state != "succeeded":  # a final state, which needs no lock
        row = session.execute(_LOOK.with_for_update(read=True, of=Job), key).one_or_none()
    if row is None:
        raise _unknown(session, name, pointer)
    if row.state in LOST_STATES:
        raise InvalidSpec(
            Problem(
                pointer=pointer,
                code="base_model_failed",
                detail=f"The base model {name!r} does not exist: its job {row.id} has the state "
                f"{row.state}. Create it again under the same name, or use another one.",
            )
        )
    return UsableBase(_facts(name, row, pointer), row.id, row.state == "succeeded")


def _facts(name: str, row: Any, pointer: str) -> BaseModelFacts:  # a row of `_LOOK`
    try:
        return BaseModelFacts(
            name=name,
            digest=row.spec_digest,
            family=row.family,
            task=row.task,
            replicates=row.replicates,
            has_tokeniser=row.folder is None or _has_tokeniser(row.folder["files"]),
            folder=row.folder,
            is_stored=row.is_stored,
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
        Job.resolved_spec["model_folder"].label("folder"),
        exists()
        .where(CheckpointRow.job_id == Job.id, CheckpointRow.attempt == Job.attempt)
        .label("is_stored"),
    )
    .join(BaseModel, BaseModel.job_id == Job.id)
    .where(BaseModel.name == bindparam("name"), BaseModel.project_id == bindparam("project_id"))
)


def resolved_facts(
    name: str, digest: str, resolved: ResolvedPretrain | ResolvedImport
) -> BaseModelFacts:
    """Return the facts of the base model that a resolved spec creates."""
    folder = resolved.model_folder if isinstance(resolved, ResolvedImport) else None
    return BaseModelFacts(
        name=name,
        digest=digest,
        family=resolved.family,
        task=resolved.task,
        replicates=len(resolved.seeds),
        has_tokeniser=folder is None or any(file.name == TOKENISER for file in folder.files),
        folder=folder,
    )


def _has_tokeniser(files: Any) -> bool:  # those of an import, as JSON
    return any(file["name"] == TOKENISER for file in files)


def is_taken(session: Session, name: str) -> bool:
    """Return True if the project has a base model of that name, ready or not."""
    return job_of(session, name) is not None


def job_of(session: Session, name: str) -> UUID | None:
    """Return the job that creates a base model, None without one."""
    return session.scalars(select(BaseModel.job_id).where(*_named(session, name))).one_or_none()


def is_ready(session: Session, name: str) -> bool:
    """Return True if a base model's weights exist."""
    state = select(Job.state).join(BaseModel, BaseModel.job_id == Job.id)
    return session.execute(state.where(*_named(session, name))).scalar_one() == "succeeded"


def equal_to(session: Session, digest: str, preferred: str) -> str | None:
    """Return the name of a base model with an equal spec, or None.

    Several may exist: `preferred` comes first, then the oldest. Only the caller's project is
    searched, so that the answer reveals nothing about other projects.
    """
    return session.execute(
        select(BaseModel.name)
        .join(Job, Job.id == BaseModel.job_id)
        .where(Job.spec_digest == digest, Job.state.not_in(LOST_STATES))
        .where(BaseModel.project_id == access.project_of(session))
        .order_by((BaseModel.name == preferred).desc(), BaseModel.created_at)
        .limit(1)
    ).scalar_one_or_none()


def register(session: Session, name: str, job_id: UUID) -> None:
    """Name the base model that a job will create.

    The name of a failed or cancelled job is taken over. Raises `StateConflict` if the name is
    taken.
    """
    inserted = session.execute(
        insert(BaseModel)
        .values(project_id=access.project_of(session), name=name, job_id=job_id)
        .on_conflict_do_nothing()
        .returning(BaseModel.name)
    )
    if inserted.scalar_one_or_none() is None:
        check_free(session, name)
        taken_over = update(BaseModel).where(*_named(session, name))
        session.execute(taken_over.values(job_id=job_id))


def check_free(session: Session, name: str) -> None:
    """Raise `StateConflict` unless the name is free.

    The name of a failed or cancelled job is free.
    """
    row = session.execute(
        select(Job.id, Job.state)
        .join(BaseModel, BaseModel.job_id == Job.id)
        .where(*_named(session, name))
        .with_for_update(of=BaseModel)
    ).one_or_none()
    if row is not None and row.state not in LOST_STATES:
        raise StateConflict(
            f"The base model {name!r} already exists: its job {row.id} has the state {row.state}. "
            "Use it, or choose another name.",
            state=row.state,
        )


def lock_table(session: Session) -> None:
    """Lock the table of base models until the unit of work ends.

    It waits for those that read the table, and later ones wait for it. A job that names a base
    model is created while the table is read, so that no new job needs one meanwhile.
    """
    session.execute(text(f"SET LOCAL lock_timeout = '{LONGEST_WAIT}'"))
    lock = text("LOCK TABLE base_models IN ACCESS EXCLUSIVE MODE")
    session.execute(lock, execution_options=ACROSS_PROJECTS)  # which reads no row
    session.execute(text("SET LOCAL lock_timeout TO DEFAULT"))


def get(session: Session, name: str) -> BaseModelView:
    """Return a base model, that of the request's project if several match.

    Raises:
        Absent: no project, or several other projects, have such a base model.
    """
    rows = session.execute(_rows().where(BaseModel.name == name)).all()
    found = [(one.BaseModel.project_id, one) for one in rows]
    # Outside the request's own project, what is shared gives way to its original.
    originals = [match for match in found if match[1].BaseModel.shared_from is None]
    row = access.nearest(session, found) or access.nearest(session, originals)
    if row is None:
        raise Absent("base model", name, session.scalars(select(BaseModel.name)).all())
    return _view(row, shared_with(session, row.BaseModel))


def shared_with(session: Session, model: BaseModel) -> tuple[str, ...]:
    """Return the names of the projects with which a base model is shared.

    Only members of its own project learn them.
    """
    if model.shared_from is not None or access.is_shared(session, model.project_id):
        return ()
    query = (
        select(Project.name)
        .join_from(BaseModel, Project, Project.id == BaseModel.project_id)
        .where(BaseModel.job_id == model.job_id, BaseModel.shared_from.is_not(None))
        .order_by(Project.name)
    )
    return tuple(session.scalars(query, execution_options=ACROSS_PROJECTS))


def page(session: Session, page_size: int, page_token: str | None = None) -> Page[BaseModelView]:
    """Return a page of base models, sorted by name."""
    place = (BaseModel.name, BaseModel.project_id)
    query = _rows().order_by(*place).limit(paging.page_limit(page_size))
    # Those of shared studies are read on the pages of the studies, and cannot be adapted here.
    visible: Sequence[int] | None = session.info.get(VISIBLE)
    if visible is not None:
        query = query.where(BaseModel.project_id.in_(visible))
    if page_token is not None:
        query = query.where(tuple_(*place) > _after(paging.read(page_token, "base_models")))
    rows = session.execute(query).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        last = shown[-1].BaseModel
        token = paging.written(Cursor(last.name, str(last.project_id)), "base_models")
    return Page(data=tuple(_view(row) for row in shown), next_page_token=token)


def usable(session: Session, most: int) -> tuple[BaseModelView, ...]:
    """Return the newest base models that jobs in the project can name."""
    in_project = BaseModel.project_id == access.project_of(session)
    query = _rows().where(in_project, Job.state.not_in(LOST_STATES))
    newest = query.order_by(BaseModel.created_at.desc(), BaseModel.name).limit(most)
    return tuple(_view(row) for row in session.execute(newest))


def _named(session: Session, name: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions on the base model of that name in the project."""
    return BaseModel.name == name, BaseModel.project_id == access.project_of(session)


def _after(cursor: Cursor) -> tuple[str, int]:
    return cursor.key, cursor.row()


def _rows() -> Select[BaseModel, Job, str, str | None, str]:  # the last one can be null
    origin = aliased(Project)
    return (
        select(BaseModel, Job, Project.name, _folder(), origin.name)
        .join(Job, Job.id == BaseModel.job_id)
        .join(Project, Project.id == BaseModel.project_id)
        .outerjoin(origin, origin.id == BaseModel.shared_from)
    )


def _folder() -> ColumnElement[str | None]:
    """Return the folder of an imported model.

    NULL if an earlier version stored its weights.
    """
    is_stored = exists().where(CheckpointRow.job_id == Job.id, CheckpointRow.attempt == Job.attempt)
    return case((~is_stored, Job.resolved_spec[("model_folder", "folder")].astext))


def _view(
    row: Row[BaseModel, Job, str, str | None, str], shared: tuple[str, ...] = ()
) -> BaseModelView:
    model, job, project, folder, origin = row
    seeds: list[Any] = job.resolved_spec["seeds"]  # as stored: a JSON array of integers
    return BaseModelView(
        name=model.name,
        project=project,
        shared_from=origin,
        shared_with=shared,
        state=job.state,
        ready=job.state == "succeeded",
        digest=job.spec_digest,
        family=job.resolved_spec["family"],
        task=job.resolved_spec["task"],
        folder=folder,
        origin=_origin(job.resolved_spec),
        parameters=job.trainable_parameters,
        replicates=len(seeds),
        job_id=job.id,
        created_at=model.created_at,
        links=BaseModelLinks(self=f"/v1/base-models/{model.name}", job=f"/v1/jobs/{job.id}"),
    )


def _origin(resolved: Mapping[str, Any]) -> HubOrigin | None:  # a spec as stored
    folder: Any = resolved.get("model_folder")
    origin: Any = None if folder is None else folder.get("origin")
    return None if origin is None else HubOrigin.model_validate(origin)


def _unknown(session: Session, name: str, pointer: str) -> UnknownName:
    in_project = BaseModel.project_id == access.project_of(session)
    query = select(BaseModel.name).where(in_project).order_by(BaseModel.name)
    names = session.scalars(query).all()
    return UnknownName(
        Problem(
            pointer=pointer,
            code="unknown_base_model",
            detail=(
                f"There is no base model named {name!r}. Pretrain or import one, or give its spec "
                "here."
            ),
            allowed=tuple(names[:100]),
            nearest=tuple(get_close_matches(name, names, n=3, cutoff=0.5)),
        )
    )
