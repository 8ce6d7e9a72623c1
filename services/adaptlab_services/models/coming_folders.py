"""Model folders that a hub brings, and imports that wait for them.

An import is resolved by the plan of a fetch: the configuration, the tokeniser's digest and the
headers, read at the commit that is fetched. Only the samples of weights in the fingerprint are not
known yet, and so the digests of the import and of all that names it change when the files are
there. A folder is coming as long as its `stored` is empty.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import Row, func, or_, select
from sqlalchemy.orm import Session

from adaptlab.plugins.family import AnyFamily, Family
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import UPLOADED, EvaluationBase, ModelFolder, ResolvedSpec
from adaptlab.weights.hub_name import HubName, HubOrigin
from adaptlab.weights.model_file import ModelFile
from adaptlab_answers.hub import HubPlan
from adaptlab_db.tables import (
    ACTIVE_FETCH_STATES,
    BaseModel,
    HubFetch,
    Job,
    Json,
    UploadedFolder,
    User,
)
from adaptlab_services.errors import StateConflict
from adaptlab_services.lifecycle import awaiting
from adaptlab_services.lifecycle.transitions import Change, Moved, move
from adaptlab_services.models import base_models, uploaded_folders
from adaptlab_services.models.fetch_rows import active_of, insert_fetch, source_of
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal

PLAN_IS_FRESH = timedelta(minutes=10)
"""How long a plan stands for what a branch is."""
_FAMILY: TypeAdapter[Family] = TypeAdapter(AnyFamily)


def planned(session: Session, name: HubName, base_model: str) -> tuple[Family, ModelFolder] | None:
    """Return the model and the folder that a fetch brings, None without plan.

    That is an active fetch of the project, or a new one into the folder `base_model`.

    Raises:
        StateConflict: a new fetch is needed, and the folder exists.
    """
    found = _plan_of(session, name)
    if found is None:
        return None
    row, owner = found
    if row.plan_only:
        _check_free(session, base_model)
    plan = HubPlan.model_validate(row.plan)
    folder = f"{UPLOADED}/{base_model if row.plan_only else row.name}"
    return _FAMILY.validate_python(plan.family), _folder(folder, name, row, owner, plan)


def is_planned(session: Session, name: HubName) -> bool:
    """Return True if `planned` has a plan of a model."""
    return _plan_of(session, name) is not None


def begin(session: Session, principal: Principal, job_id: UUID, folder: ModelFolder) -> None:
    """Begin the fetch for which an import waits, or join one that is active.

    Raises `StateConflict` if the folder's name is taken, or the caller has too many fetches.
    """
    assert folder.origin is not None
    origin, project_id = folder.origin, access.to_create(session)
    name = folder.folder.partition("/")[2]
    row = active_of(session, project_id, name)
    if row is not None:
        _check_same(row, origin)
        row.commit = row.commit or origin.commit
        session.flush()
        return
    if arrived(session, project_id, name):  # it has ended since it was looked up
        return
    _check_free(session, name)
    members = {key: getattr(origin, key) for key in ("endpoint", "repository", "revision")}
    columns = {"project_id": project_id, "name": name, "commit": origin.commit, "job_id": job_id}
    plan = _plan_at(session, origin)
    if plan is not None:
        columns |= {
            "plan": plan.model_dump(mode="json"),
            "bytes_total": sum(file.size_bytes for file in plan.files),
        }
    insert_fetch(session, principal, members | columns)


def arrived(session: Session, project_id: int, name: str) -> tuple[Moved, ...]:
    """Resolve and queue the imports that wait for a folder, if it is there.

    Jobs that build on these get the new digests. An import of another commit fails.
    """
    imports = _waiting(session, project_id, name)
    with access.inside(session, project_id):
        if not imports or not _is_there(session, name):
            return ()
        folder = uploaded_folders.model_folder(session, f"{UPLOADED}/{name}", "/folder")
    commit = None if folder.origin is None else folder.origin.commit
    mine = [job for job in imports if _commit_of(job) == commit]
    others = [job for job in imports if job not in mine]
    digests = dict(_resolve(job, {}, model_folder=folder) for job in mine)
    _carry_on(session, project_id, mine, digests, folder)
    session.flush()
    change = Change("queued", data={"commit": commit})
    moved = move(session, [Job.id.in_([job.id for job in mine]), Job.state == "waiting"], change)
    text = f"The model folder {name!r} has the files of another commit. Choose another name."
    return (*moved, *_fail(session, [job.id for job in others], text))


def lost(session: Session, project_id: int, name: str, error: str) -> tuple[Moved, ...]:
    """Fail the imports that wait for a folder, and the jobs on their models."""
    return _fail(session, [job.id for job in _waiting(session, project_id, name)], error)


def _plan_at(session: Session, origin: HubOrigin) -> HubPlan | None:
    """Return the newest plan of a model at a commit."""
    found = session.scalars(
        select(HubFetch.plan)
        .where(HubFetch.endpoint == origin.endpoint, HubFetch.repository == origin.repository)
        .where(HubFetch.commit == origin.commit, HubFetch.dataset.is_(None))
        .where(func.jsonb_typeof(HubFetch.plan) == "object")
        .order_by(HubFetch.created_at.desc())
        .limit(1)
    ).one_or_none()
    return None if found is None else HubPlan.model_validate(found)


def _plan_of(session: Session, name: HubName) -> Row[HubFetch, str] | None:
    """Return the fetch whose plan a name has now, with its owner's name."""
    return session.execute(
        select(HubFetch, User.name)
        .join(User, User.id == HubFetch.owner_id)
        .where(
            HubFetch.repository == name.repository,
            or_(HubFetch.revision == name.revision, HubFetch.commit == name.revision),
            HubFetch.dataset.is_(None),
            HubFetch.push.is_(None),
            HubFetch.commit.is_not(None),
            func.jsonb_typeof(HubFetch.plan) == "object",
            or_(
                (HubFetch.project_id == access.project_of(session))
                & HubFetch.state.in_(ACTIVE_FETCH_STATES)
                & ~HubFetch.plan_only,
                (HubFetch.state == "succeeded")
                & HubFetch.plan_only
                & (HubFetch.ended_at > func.clock_timestamp() - PLAN_IS_FRESH),
            ),
        )
        .order_by(HubFetch.plan_only, HubFetch.created_at.desc())
        .limit(1)
    ).one_or_none()


def present(session: Session, resolved: Json) -> ResolvedSpec:
    """Return a resolved spec with the present digests of models of the hub.

    That of a job which ended while a model was being fetched has those of the plan.
    """
    document = ResolvedSpec.model_validate(resolved)
    digests: dict[str, str] = {}
    if document.base_model is not None and document.base_digest is not None:
        base = _of_hub(session, document.base_model)
        digests = {} if base is None else {document.base_digest: base.digest}
    others: list[EvaluationBase] = []
    for other in document.evaluation_bases:
        base = _of_hub(session, other.name)
        if base is not None:
            other = other.model_copy(update={"digest": base.digest, "folder": base.folder})
        others.append(other)
    for measured in document.adaptations if digests else ():
        digests[measured.digest] = session.get_one(Job, measured.job).spec_digest
    changed = document.model_copy(update={"evaluation_bases": tuple(others)})
    return _replaced(changed.model_dump(mode="json"), digests)


def _of_hub(session: Session, name: str) -> BaseModelFacts | None:
    """Return a base model whose files are from a hub, None for others."""
    if not base_models.is_taken(session, name):
        return None
    base = base_models.facts(session, name)
    return base if base.folder is not None and base.folder.origin is not None else None


def _folder(path: str, name: HubName, row: HubFetch, owner: str, plan: HubPlan) -> ModelFolder:
    members = ("licence", "licence_name", "licence_link", "gated", "private")
    origin = HubOrigin(
        endpoint=row.endpoint,
        repository=row.repository,
        revision=name.revision,
        commit=str(row.commit),
        fetched_by=owner,
        fetched_at=row.created_at.isoformat(timespec="seconds"),
        **{key: getattr(plan, key) for key in members},
    )
    files = tuple(
        ModelFile(name=file.name, size=file.size_bytes, digest=file.sha256 or "")
        for file in plan.files
    )
    return ModelFolder(folder=path, files=files, origin=origin)


def _check_free(session: Session, name: str) -> None:
    if _is_there(session, name):
        raise StateConflict(
            f"The model folder {name!r} exists, from elsewhere. Choose another name for the base "
            "model."
        )


def _check_same(row: HubFetch, origin: HubOrigin) -> None:
    pinned = row.revision if row.commit is None else row.commit
    if row.repository != origin.repository or pinned not in (origin.revision, origin.commit):
        raise StateConflict(
            f"{row.name!r} is being fetched from {source_of(row)}. Wait, or choose another name."
        )


def _is_there(session: Session, name: str) -> bool:
    mine = UploadedFolder.project_id == access.project_of(session), UploadedFolder.name == name
    return session.scalars(select(UploadedFolder.name).where(*mine)).one_or_none() is not None


def _waiting(session: Session, project_id: int, name: str) -> Sequence[Job]:
    """Lock and return the imports that wait for a folder."""
    folder = Job.resolved_spec[("model_folder", "folder")].astext
    query = (
        select(Job)
        .where(Job.project_id == project_id, Job.state == "waiting", awaiting.awaits_fetch())
        .where(folder == f"{UPLOADED}/{name}")
        .order_by(Job.id)
        .with_for_update()
    )
    return session.scalars(query.execution_options(populate_existing=True)).all()


def _commit_of(job: Job) -> str:
    return str(job.resolved_spec["model_folder"]["origin"]["commit"])


def _resolve(job: Job, digests: Mapping[str, str], **members: Any) -> tuple[str, str]:
    """Resolve a job again; return its digests before and after.

    `digests` are those that changed, and `members` of any type are replaced.
    """
    document = _replaced(job.resolved_spec, digests).model_copy(update=members)
    before, after = job.spec_digest, spec_digest(document)
    job.resolved_spec, job.spec_digest = document.model_dump(mode="json"), after
    return before, after


def _replaced(document: Json, digests: Mapping[str, str]) -> ResolvedSpec:
    """Return a resolved spec with other digests."""
    text = json.dumps(document)
    for before, after in digests.items():  # of 64 digits each, which are nothing else
        text = text.replace(before, after)
    return ResolvedSpec.model_validate_json(text)


def _carry_on(
    session: Session,
    project_id: int,
    imports: Sequence[Job],
    digests: Mapping[str, str],
    folder: ModelFolder,
) -> None:
    """Resolve again the waiting jobs that name imports by their digests.

    First adaptations, then the theory checks that measure these.
    """
    names = select(BaseModel.name).where(BaseModel.job_id.in_([job.id for job in imports]))
    others = func.jsonb_array_length(Job.resolved_spec["evaluation_bases"]) > 0
    changed = dict(digests)
    for kind in ("adapt", "theory"):
        query = (
            select(Job)
            .where(Job.project_id == project_id, Job.kind == kind, Job.state == "waiting")
            .where(or_(Job.base_model.in_(names), others, Job.kind == "theory"))
            .order_by(Job.id)
            .with_for_update()
        )
        for job in session.scalars(query.execution_options(populate_existing=True)):
            if any(before in json.dumps(job.resolved_spec) for before in changed):
                before, after = _resolve(job, changed, **_elsewhere(job, digests, folder))
                changed[before] = after


def _elsewhere(job: Job, digests: Mapping[str, str], folder: ModelFolder) -> dict[str, Any]:
    """Return the other base models of a job, if one of them is an import."""
    bases = ResolvedSpec.model_validate(job.resolved_spec).evaluation_bases
    if not any(base.digest in digests for base in bases):
        return {}
    return {
        "evaluation_bases": tuple(
            base.model_copy(update={"digest": digests[base.digest], "folder": folder})
            if base.digest in digests
            else base
            for base in bases
        )
    }


def _fail(session: Session, imports: Sequence[UUID], error: str) -> tuple[Moved, ...]:
    if not imports:
        return ()
    query = select(Job.id).where(Job.state == "waiting", awaiting.waits_for(imports))
    builds_on = Job.id.in_(session.scalars(query).all()), Job.state == "waiting"
    moved = move(session, builds_on, Change("failed", "base_model_failed", error))
    still = Job.id.in_(imports), Job.state == "waiting"
    return (*moved, *move(session, still, Change("failed", "fetch_failed", error)))
