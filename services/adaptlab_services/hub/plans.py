"""Plans of the models on a hub that a spec names, and fetches in work."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.spec import AdaptSpec, ImportSpec
from adaptlab.studies.study import StudyChanges, StudyExtension, StudySpec
from adaptlab.values import Value
from adaptlab.weights.hub_name import HubName, is_hub_name
from adaptlab_db.tables import ACTIVE_FETCH_STATES, HubFetch
from adaptlab_services.hub import fetches
from adaptlab_services.hub.fetches import NewHubFetch
from adaptlab_services.models import coming_folders, uploaded_folders
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

DIGITS = 16


@dataclass(frozen=True, slots=True)
class FetchInWork:
    """A fetch for which a request waits, with the error of its last attempt."""

    id: UUID
    source: str
    is_dataset: bool
    error: str | None


def sources_in(spec: Value) -> Mapping[str, str]:
    """Return the first pointer of each model on the hub that a spec imports."""
    found: dict[str, str] = {}
    for pointer, base in _imports_in(spec):
        if is_hub_name(base.folder):
            found.setdefault(base.folder, pointer)
    return found


def begin(
    session: Session, principal: Principal, sources: Mapping[str, str], settings: Settings
) -> Mapping[UUID, str]:
    """Have models planned that are neither here nor planned yet.

    Returns the pointers of what is to be planned, by the ids of the fetches. Equal requests share a
    plan.

    Raises:
        InvalidSpec: a source is no name of a model, or the server talks to no hub.
        StateConflict: the caller has too many active fetches.
    """
    begun: dict[UUID, str] = {}
    for source, pointer in sources.items():
        name = HubName.read(source, pointer)
        if uploaded_folders.of_hub(session, name) or coming_folders.is_planned(session, name):
            continue
        fetches.check_on(settings, pointer)
        digest = hashlib.sha256(str(name).encode()).hexdigest()[:DIGITS]
        new = NewHubFetch(name=f"plan-{digest}", source=str(name), plan_only=True)
        begun[fetches.create(session, principal, new, settings)[0].id] = pointer
    return begun


def in_work(session: Session, begun: Mapping[UUID, str]) -> Sequence[FetchInWork]:
    """Return the fetches that have not ended, of those with these pointers.

    Raises:
        InvalidSpec: one failed; the problem has the sentence of the fetch.
    """
    rows = session.scalars(select(HubFetch).where(HubFetch.id.in_(begun))).all()
    if problems := tuple(_problems(rows, begun)):
        raise InvalidSpec(*problems)
    return [
        FetchInWork(row.id, fetches.source_of(row), row.dataset is not None, row.error)
        for row in rows
        if row.state in ACTIVE_FETCH_STATES
    ]


def _problems(rows: Iterable[HubFetch], begun: Mapping[UUID, str]) -> Iterator[Problem]:
    for row in rows:
        if row.state in fetches.AGAIN:
            detail = row.error or f"The fetch of {fetches.source_of(row)} was {row.state}."
            yield Problem(begun[row.id], row.code or row.state, detail)


def _imports_in(spec: Value) -> Iterator[tuple[str, ImportSpec]]:
    """Yield the imports of a spec, with the pointers of their folders."""
    if isinstance(spec, ImportSpec):
        yield "/folder", spec
    elif isinstance(spec, AdaptSpec) and isinstance(spec.base_model, ImportSpec):
        yield "/base_model/folder", spec.base_model
    elif isinstance(spec, StudySpec | StudyExtension | StudyChanges):
        for index, base in enumerate(spec.base_models or ()):
            if isinstance(base, ImportSpec):
                yield f"/base_models/{index}/folder", base
