"""Pushes of adapters to a hub, which are listed among the fetches."""

import hashlib
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.values import Value
from adaptlab.weights.hub_name import LONGEST, MAIN, HubName
from adaptlab_answers.hub import HubFetchView
from adaptlab_db.tables import CheckpointRow, Job
from adaptlab_services.errors import Absent
from adaptlab_services.hub import fetches, hub_tokens
from adaptlab_services.hub.fetch_errors import sentence
from adaptlab_services.hub.model_cards import origin_of
from adaptlab_services.models.fetch_rows import active_of
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings


class NewHubPush(Value):
    """The repository that an adapter is pushed to, as `ORGANISATION/NAME`.

    It is created if there is none, as a private one unless `is_public`.
    """

    repository: Annotated[str, Field(min_length=1, max_length=LONGEST)]
    is_public: bool = False


def create(
    session: Session, principal: Principal, checkpoint_id: int, new: NewHubPush, settings: Settings
) -> tuple[HubFetchView, bool]:
    """Create a push of a checkpoint; return it, and whether it is new.

    An active push of the same checkpoint to the same repository is returned again.

    Raises:
        Absent: there is no such checkpoint.
        Forbidden: the caller may not submit to its project.
        InvalidSpec: the hub is off, the name is none, the caller has stored no token, or the
            licence forbids it.
        StateConflict: the caller has too many active fetches.
    """
    checkpoint = session.get(CheckpointRow, checkpoint_id)
    if checkpoint is None:
        raise Absent("checkpoint", checkpoint_id)
    job = session.get_one(Job, checkpoint.job_id)
    with access.inside(session, job.project_id):
        access.to_create(session)
    fetches.check_on(settings, "/repository")
    target = HubName.read(new.repository, "/repository")
    if target.revision != MAIN:
        detail = "Adapters are pushed to the branch main. Leave out what follows the @."
        raise InvalidSpec(Problem("/repository", "bad_hub_name", detail))
    _check_allowed(session, principal, job, new, target, settings)
    digest = hashlib.sha256(target.repository.encode()).hexdigest()[:12]
    name = f"push-{checkpoint_id}-{digest}"
    if (running := active_of(session, job.project_id, name)) is not None:
        return fetches.get(session, running.id), False
    columns: dict[str, Any] = {  # of several types
        "project_id": job.project_id,
        "name": name,
        "plan_only": False,
        "push": {"checkpoint_id": checkpoint_id, "is_public": new.is_public},
        "job_id": job.id,
    }
    return fetches.store(session, principal, settings, target, columns), True


def _check_allowed(
    session: Session,
    principal: Principal,
    job: Job,
    new: NewHubPush,
    target: HubName,
    settings: Settings,
) -> None:
    """Refuse at once what an attempt would refuse."""
    code = None
    if not hub_tokens.look(session, principal, settings).is_set:
        code = "no_token"
    elif new.is_public and job.base_model is not None:
        origin = origin_of(session, job)
        code = "no_licence" if origin is None or origin.licence is None else None
    if code is not None:
        detail = sentence(code, "", target, settings.hub_endpoint)
        raise InvalidSpec(Problem("/repository", code, detail))
