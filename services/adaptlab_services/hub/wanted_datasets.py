"""Fetches of the datasets on a hub that a spec names, begun or joined."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.generated_words import NAME as GENERATED
from adaptlab.weights.hub_name import LONGEST, HubDatasetName
from adaptlab_db.tables import ACTIVE_FETCH_STATES, Dataset, HubFetch
from adaptlab_services.errors import StateConflict
from adaptlab_services.hub import fetches
from adaptlab_services.hub.fetches import NewHubFetch
from adaptlab_services.models import datasets
from adaptlab_services.models.fetch_rows import active_of
from adaptlab_services.people import access, audit
from adaptlab_services.people.audit import Entry
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

ACTION = "create_hub_fetch"
"""The action of a new fetch in the audit log, as of the route."""
DIGITS = 8
"""Digits of the digest of a source, after a name that is taken."""
FAILURE_IS_FRESH = timedelta(minutes=1)
"""How long the failure of a fetch answers repeated requests."""


def begin(
    session: Session,
    principal: Principal,
    sources: Mapping[str, str],
    settings: Settings,
    patience: timedelta,
    entry: Entry,
) -> Mapping[UUID, str]:
    """Begin or join the fetches of datasets that the project does not have.

    Returns the pointers of the datasets, by the ids of their fetches. A fetch of the caller that
    outlasted the `patience` of the request that began it, and has just failed, is among them. The
    `entry` of the audit log is written for each new fetch.

    Raises:
        InvalidSpec: a source is no name of a dataset, or the server talks to no hub.
        StateConflict: the caller has too many active fetches, or all names are taken.
    """
    begun: dict[UUID, str] = {}
    for source, pointer in sources.items():
        name = HubDatasetName.read(source, pointer)
        if datasets.stored_of_hub(session, name) is None:
            fetches.check_on(settings, pointer, "dataset")
            fetch_id = _present(session, principal, name, pointer, patience)
            fetch_id = fetch_id or _new(session, principal, name, settings, entry)
            begun[fetch_id] = pointer
    return begun


def _present(
    session: Session,
    principal: Principal,
    name: HubDatasetName,
    pointer: str,
    patience: timedelta,
) -> UUID | None:
    """Return the fetch that is active or has just failed, or None."""
    if len(str(name)) > LONGEST:
        detail = f"The name has {len(str(name))} characters, and at most {LONGEST} are possible."
        raise InvalidSpec(Problem(pointer, "bad_hub_name", detail))
    project_id = access.to_create(session)
    active_of(session, project_id, name.usual_name)  # the second of simultaneous requests waits
    is_active = HubFetch.state.in_(ACTIVE_FETCH_STATES)
    now, own = func.clock_timestamp(), HubFetch.owner_id == principal.user_id
    has_failed = (
        (HubFetch.state == "failed")
        & (HubFetch.ended_at > now - FAILURE_IS_FRESH)
        & (HubFetch.ended_at - HubFetch.created_at > patience)
    )
    for condition in (is_active, own & has_failed):
        if (fetch := _newest(session, project_id, name, condition)) is not None:
            return fetch
    return None


def _new(
    session: Session, principal: Principal, name: HubDatasetName, settings: Settings, entry: Entry
) -> UUID:
    free = _free_name(session, access.to_create(session), name)
    new = NewHubFetch(kind="dataset", name=free, source=str(name))
    fetch, is_new = fetches.create(session, principal, new, settings)
    if is_new:
        details: dict[str, object] = {"source": str(name), "name": free}
        made = replace(entry, action=ACTION, object=str(fetch.id), details=details)
        audit.record(session, made)
    return fetch.id


def _newest(
    session: Session, project_id: int, name: HubDatasetName, condition: ColumnElement[bool]
) -> UUID | None:
    """Return the newest fetch of a dataset that meets a condition, or None."""
    split = {"config": name.config, "split": name.split}
    return session.scalars(
        select(HubFetch.id)
        .where(HubFetch.project_id == project_id, HubFetch.repository == name.name.repository)
        .where(HubFetch.revision == name.name.revision, HubFetch.dataset == split)
        .where(~HubFetch.plan_only, condition)
        .order_by(HubFetch.created_at.desc())
        .limit(1)
    ).one_or_none()


def _free_name(session: Session, project_id: int, name: HubDatasetName) -> str:
    """Return the usual name of a dataset, or a longer one if that is taken.

    Raises:
        StateConflict: both are taken.
    """
    usual = name.usual_name
    digest = hashlib.sha256(str(name).encode()).hexdigest()[:DIGITS]
    longer = f"{usual[: datasets.LONGEST_NAME - DIGITS - 1]}-{digest}"
    for wanted in (longer,) if usual == GENERATED else (usual, longer):
        named = Dataset.project_id == project_id, Dataset.name == wanted
        is_taken = session.scalars(select(Dataset.name).where(*named)).one_or_none() is not None
        if not is_taken and active_of(session, project_id, wanted) is None:
            return wanted
    raise StateConflict(
        f"The names {usual!r} and {longer!r}, one of which {name} would get, are those of other "
        f"datasets. Choose a name: adaptlab datasets add NAME '{name}'."
    )
