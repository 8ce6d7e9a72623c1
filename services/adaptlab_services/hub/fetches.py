"""Fetches from a hub: created, listed, cancelled and tried again."""

from collections.abc import Mapping
from typing import Annotated, Any, cast
from uuid import UUID

from pydantic import Field
from sqlalchemy import Select, exists, func, select, update
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.spec import EvaluationSpec, Label, LabelName, Labels, ResourcesSpec
from adaptlab.values import Name, Value
from adaptlab.weights.hub_name import LONGEST, HubDatasetName, HubName
from adaptlab_answers.hub import (
    FetchState,
    HubDatasetPlan,
    HubFetchLinks,
    HubFetchView,
    HubPlan,
    RepositoryKind,
)
from adaptlab_answers.paging import Page
from adaptlab_db.tables import (
    ACTIVE_FETCH_STATES,
    Dataset,
    HubFetch,
    Job,
    Project,
    UploadedFolder,
    User,
)
from adaptlab_services import paging
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.hub.hub_access import HubAccess
from adaptlab_services.lifecycle import awaiting
from adaptlab_services.limits import quotas
from adaptlab_services.models import base_models, coming_folders, datasets
from adaptlab_services.models.fetch_rows import active_of, insert_fetch, seconds_left, source_of
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access, audit
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings
from adaptlab_services.storage import uploads

KIND = "hub fetch"
SHOWN_FROM = 20
"""The newest fetches, of which a page shows those that have not succeeded."""
AGAIN = ("failed", "cancelled")
_CANCELLED = {"state": "cancelled", "holder": None, "ended_at": func.clock_timestamp()}


class NewHubFetch(Value):
    """A model to fetch from the hub, or a dataset.

    `source` is `hub:ORGANISATION/NAME@REVISION`. A model becomes the model folder `name`. A dataset
    becomes the dataset `name`; its source can end with `#SPLIT` or `#CONFIGURATION/SPLIT`. Unless
    `imports` is false, a model is then imported as the base model `name`, with the other members.
    With `plan_only`, no weights and only the first records are fetched, and nothing is left but the
    plan.
    """

    kind: RepositoryKind = "model"
    name: Name
    source: Annotated[str, Field(min_length=1, max_length=LONGEST)]
    imports: bool = True
    plan_only: bool = False
    evaluation: EvaluationSpec = EvaluationSpec()
    resources: ResourcesSpec = ResourcesSpec()
    labels: Labels = Field(default_factory=dict[LabelName, Label])


def create(
    session: Session, principal: Principal, new: NewHubFetch, settings: Settings
) -> tuple[HubFetchView, bool]:
    """Create a fetch; return it, and whether it is new.

    An active fetch of the same source and name is returned again.

    Raises:
        InvalidSpec: the server fetches nothing, or the source is no name of a model.
        StateConflict: the name is taken, or the caller has too many active fetches.
    """
    project_id = access.to_create(session)
    check_on(settings, "/source", new.kind)
    source = _read_source(new)
    row = active_of(session, project_id, new.name)
    if row is not None:
        if source_of(row) != str(source):
            raise StateConflict(
                f"{new.name!r} is being fetched from {source_of(row)}. Wait or cancel."
            )
        if row.push is None:
            row.job_id = None  # the fetch goes on without the job for which it was begun
        return get(session, row.id), False
    if not new.plan_only:
        _check_free(session, project_id, new, source)
    quotas.check_room(session, principal.user_id, 0)
    base_model = new.model_dump(mode="json", include={"evaluation", "resources", "labels"})
    imports = new.imports and new.kind == "model" and not new.plan_only
    columns: dict[str, Any] = {  # of several types
        "project_id": project_id,
        "name": new.name,
        "base_model": base_model if imports else None,
        "dataset": _split_of(source),
        "plan_only": new.plan_only,
    }
    return store(session, principal, settings, source, columns), True


def store(
    session: Session,
    principal: Principal,
    settings: Settings,
    source: HubName | HubDatasetName,
    columns: Mapping[str, Any],  # of several types
) -> HubFetchView:
    """Store a fetch of the caller.

    Raises `StateConflict` if the caller has too many active ones.
    """
    whole = source.name if isinstance(source, HubDatasetName) else source
    values = {
        "endpoint": HubAccess.of(settings, None).hosts.alias,
        "repository": whole.repository,
        "revision": whole.revision,
        **columns,
    }
    fetch_id = insert_fetch(session, principal, values)
    audit.note(session, source=str(source), name=columns["name"])
    return get(session, fetch_id)


def get(session: Session, fetch_id: UUID) -> HubFetchView:
    """Return a fetch; raises `Absent`."""
    row = session.execute(_rows().where(HubFetch.id == fetch_id)).one_or_none()
    if row is None:
        raise Absent(KIND, fetch_id)
    return _view(*row)


def pushes_of(session: Session, job_id: UUID) -> tuple[HubFetchView, ...]:
    """Return the pushes of a job's adapters, newest first."""
    rows = _rows().where(HubFetch.job_id == job_id, HubFetch.push.is_not(None))
    return tuple(_view(*row) for row in session.execute(rows.order_by(HubFetch.created_at.desc())))


def page(
    session: Session, page_size: int = paging.DEFAULT_PAGE_SIZE, page_token: str | None = None
) -> Page[HubFetchView]:
    """Return a page of fetches, newest first."""
    newest = HubFetch.created_at.desc(), HubFetch.id.desc()
    query = _rows().order_by(*newest).limit(paging.page_limit(page_size))
    if page_token is not None:
        query = query.where(
            paging.read(page_token, "hub_fetches").older(HubFetch.created_at, HubFetch.id)
        )
    rows = session.execute(query).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        last: HubFetch = shown[-1].HubFetch
        token = paging.written(Cursor(last.created_at.isoformat(), str(last.id)), "hub_fetches")
    return Page(data=tuple(_view(*row) for row in shown), next_page_token=token)


def cancel(session: Session, fetch_id: UUID) -> HubFetchView:
    """Cancel a fetch; one that has ended does not change.

    Raises `Absent` and `Forbidden`.
    """
    row = _changeable(session, fetch_id)
    if row.state in ACTIVE_FETCH_STATES:
        project_id, name, owner_id, source = row.project_id, row.name, row.owner_id, source_of(row)
        _update(session, fetch_id, _CANCELLED)
        _drop_bytes(session, owner_id)
        if not row.plan_only and row.push is None and row.dataset is None:
            text = f"The fetch of {source} was cancelled. Retry the job to fetch it again."
            coming_folders.lost(session, project_id, name, text)
    return get(session, fetch_id)


def cancel_unwanted(session: Session) -> int:
    """Cancel fetches that were begun for jobs which wait no more.

    Returns their number. A fetch that a user asked for is not among them.
    """
    of_jobs = (
        HubFetch.state.in_(ACTIVE_FETCH_STATES),
        HubFetch.job_id.is_not(None),
        HubFetch.push.is_(None),
    )
    waiting = exists().where(Job.state == "waiting", awaiting.is_fetched_by(HubFetch))
    query = select(HubFetch.id).where(*of_jobs, ~waiting)
    if not session.scalars(query).all():
        return 0
    # Twice, because a job may have joined a fetch before the lock, which only the second look sees.
    locked = session.scalars(query.with_for_update(skip_locked=True)).all()
    unwanted = session.execute(
        select(HubFetch.id, HubFetch.owner_id).where(HubFetch.id.in_(locked), *of_jobs, ~waiting)
    ).all()
    for fetch_id, owner_id in unwanted:
        _update(session, fetch_id, _CANCELLED)
        _drop_bytes(session, owner_id)
    return len(unwanted)


def retry(session: Session, fetch_id: UUID, settings: Settings) -> HubFetchView:
    """Try a failed or cancelled fetch again, or one that waits, at once.

    It keeps its commit. Raises `Absent`, `Forbidden`, and `StateConflict` if it has succeeded, or
    its name was taken since.
    """
    row = _changeable(session, fetch_id)
    now = func.clock_timestamp()
    if row.state == "pending":
        _update(session, fetch_id, {"next_attempt_at": now, "failures": 0})
    elif row.state in AGAIN:
        imports, kind = row.base_model is not None, _kind(row)
        new = NewHubFetch(kind=kind, name=row.name, source=source_of(row), imports=imports)
        check_on(settings, "/source", kind)
        if active_of(session, row.project_id, row.name) is not None:
            detail = f"Another fetch has the name {row.name!r}. Wait for it or cancel it."
            raise StateConflict(detail)
        if not row.plan_only and row.push is None:
            with access.inside(session, row.project_id):
                _check_free(session, row.project_id, new, _read_source(new))
        again = {"state": "pending", "ended_at": None, "next_attempt_at": now, "failures": 0}
        _update(session, fetch_id, again | {"code": None, "error": None})
    elif row.state == "succeeded":
        raise StateConflict("The fetch has succeeded.", row.state)
    return get(session, fetch_id)


def check_on(settings: Settings, pointer: str, kind: RepositoryKind = "model") -> None:
    """Raise `InvalidSpec` at a pointer if the server talks to no hub."""
    if settings.hub == "off":
        instead = {
            "model": "a folder instead: adaptlab model-folders upload NAME FOLDER",
            "dataset": "a file instead: adaptlab datasets upload NAME FILE",
        }
        detail = (
            "This server talks to no hub: an operator has set ADAPTLAB_HUB=off. Upload "
            f"{instead[kind]}."
        )
        raise InvalidSpec(Problem(pointer, "hub_off", detail))


def _read_source(new: NewHubFetch) -> HubName | HubDatasetName:
    """Return the name of what is fetched; raises `InvalidSpec`."""
    if new.kind == "model":
        return HubName.read(new.source, "/source")
    datasets.check_name(new.name)
    return HubDatasetName.read(new.source, "/source")


def _split_of(source: HubName | HubDatasetName) -> dict[str, str | None] | None:
    if isinstance(source, HubName):
        return None
    return {"config": source.config, "split": source.split}


def _check_free(
    session: Session, project_id: int, new: NewHubFetch, source: HubName | HubDatasetName
) -> None:
    """Raise `StateConflict` if the name of what is fetched is taken."""
    if isinstance(source, HubDatasetName):
        _check_free_dataset(session, project_id, new.name, source)
        return
    named = UploadedFolder.project_id == project_id, UploadedFolder.name == new.name
    if session.scalars(select(UploadedFolder.name).where(*named)).one_or_none() is not None:
        raise StateConflict(
            f"The model folder {new.name!r} exists. Choose another name, or import that one: "
            f"adaptlab base-models import {new.name} uploaded/{new.name}."
        )
    if new.imports:
        base_models.check_free(session, new.name)


def _check_free_dataset(
    session: Session, project_id: int, name: str, source: HubDatasetName
) -> None:
    """Raise `StateConflict` if a dataset of another repository has the name.

    Others may be equal, which is known when the records are read.
    """
    repository = Dataset.origin["repository"].astext
    named = Dataset.project_id == project_id, Dataset.name == name
    other = session.scalars(
        select(repository).where(*named, repository != source.name.repository)
    ).one_or_none()
    if other is not None:
        raise StateConflict(f"The dataset {name!r} exists, from {other}. Choose another name.")


def _changeable(session: Session, fetch_id: UUID) -> HubFetch:
    row = session.scalars(
        select(HubFetch).where(HubFetch.id == fetch_id).with_for_update()
    ).one_or_none()
    if row is None:
        raise Absent(KIND, fetch_id)
    access.check_change(session, row.owner_id, row.project_id)
    return row


def _drop_bytes(session: Session, owner_id: int) -> None:
    """Delete what was fetched in part, unless other fetches may need it."""
    active = HubFetch.owner_id == owner_id, HubFetch.state.in_(ACTIVE_FETCH_STATES)
    if session.scalars(select(HubFetch.id).where(*active).limit(1)).one_or_none() is None:
        fetcher = Principal(user_id=owner_id, name="", token_id=0, scopes=(), is_fetcher=True)
        for upload in uploads.page(session, fetcher).data:
            uploads.remove(session, fetcher, upload.id)


def _update(session: Session, fetch_id: UUID, values: dict[str, Any]) -> None:
    session.execute(
        update(HubFetch)
        .where(HubFetch.id == fetch_id)
        .values(values)
        .execution_options(synchronize_session=False)
    )
    session.expire_all()


def _rows() -> Select[Any, Any, Any]:
    return (
        select(HubFetch, Project.name, User.name)
        .join(Project, Project.id == HubFetch.project_id)
        .join(User, User.id == HubFetch.owner_id)
        .execution_options(populate_existing=True)
    )


def _kind(row: HubFetch) -> RepositoryKind:
    return "model" if row.dataset is None else "dataset"


def _view(row: HubFetch, project: str, owner: str) -> HubFetchView:
    is_there = row.state == "succeeded" and not row.plan_only and row.push is None
    is_model = _kind(row) == "model"
    return HubFetchView(
        id=row.id,
        kind=_kind(row),
        project=project,
        owner=owner,
        name=row.name,
        source=source_of(row),
        endpoint=row.endpoint,
        repository=row.repository,
        revision=row.revision,
        commit=row.commit,
        state=cast("FetchState", row.state),
        bytes_done=row.bytes_done,
        bytes_total=row.bytes_total,
        seconds_left=seconds_left(row),
        attempts=row.attempts,
        holder=row.holder,
        next_attempt_at=row.next_attempt_at if row.state == "pending" else None,
        code=row.code,
        error=row.error,
        plan=HubPlan.model_validate(row.plan) if row.plan and is_model else None,
        dataset_plan=(
            HubDatasetPlan.model_validate(row.plan) if row.plan and not is_model else None
        ),
        imports=row.base_model is not None,
        plan_only=row.plan_only,
        checkpoint_id=None if row.push is None else row.push["checkpoint_id"],
        job_id=row.job_id,
        created_at=row.created_at,
        ended_at=row.ended_at,
        links=HubFetchLinks(
            self=f"/v1/hub-fetches/{row.id}",
            folder=f"/v1/model-folders/{row.name}" if is_there and is_model else None,
            dataset=f"/v1/datasets/{row.name}" if is_there and not is_model else None,
            job=None if row.job_id is None else f"/v1/jobs/{row.job_id}",
        ),
    )
