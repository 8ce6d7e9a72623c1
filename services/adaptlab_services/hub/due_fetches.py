"""Fetches that are due: taken by one process at a time, and recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import delete, exists, func, select, text, true, update
from sqlalchemy.orm import Session, aliased

from adaptlab.weights.hub_name import HubName
from adaptlab_answers.hub import RepositoryKind
from adaptlab_db.tables import ACTIVE_FETCH_STATES, HubFetch
from adaptlab_services.models import coming_folders
from adaptlab_services.pace import Backoff

HOLD = timedelta(seconds=30)
"""How long a process keeps a fetch without a sign of life."""
MOST_FAILURES = 8
"""Attempts in a row that bring nothing before a fetch has failed."""
LONGEST_DELAY = timedelta(minutes=30)
"""Also the longest wait that a hub can ask for."""
DELAYS = Backoff(timedelta(seconds=5), 3, LONGEST_DELAY)
KEPT_DAYS = 90
"""Days for which ended fetches are kept."""
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('adaptlab.hub', 0))")


@dataclass(frozen=True, slots=True)
class ClaimedFetch:
    """A fetch that this process works on; `number` is the attempt."""

    id: UUID
    number: int
    project_id: int
    owner_id: int
    folder: str
    endpoint: str
    name: HubName
    commit: str | None
    base_model: Mapping[str, Any] | None  # members of a spec, as JSON
    dataset: Mapping[str, str | None] | None
    plan_only: bool
    push: Mapping[str, Any] | None = None  # `checkpoint_id` and `is_public`, as JSON

    @property
    def kind(self) -> RepositoryKind:
        """The noun of what is fetched."""
        return "model" if self.dataset is None else "dataset"

    @property
    def brings_model(self) -> bool:
        """True for a fetch that ends with a model folder."""
        return self.kind == "model" and not self.plan_only and self.push is None

    @property
    def pinned(self) -> str:
        """The commit if it is known, otherwise the revision."""
        return self.commit or self.name.revision


class NotHeld(Exception):
    """The fetch was cancelled, or another process has taken it over."""


def claim(
    session: Session, endpoint: str, holder: str, *, only_plans: bool = False
) -> ClaimedFetch | None:
    """Take the fetch of a hub that has been due for longest, if any.

    A second fetch of a repository waits for the first, whose files it then shares. Plans, which
    requests wait for, come first and share nothing.
    """
    session.execute(_ONE_AT_A_TIME)
    row, other, now = HubFetch, aliased(HubFetch), func.clock_timestamp()
    in_work = exists().where(
        other.state == "running",
        other.next_attempt_at > now,
        other.endpoint == row.endpoint,
        other.repository == row.repository,
        ~other.plan_only,
        ~row.plan_only,
    )
    due = (
        select(row)
        .where(row.state.in_(ACTIVE_FETCH_STATES), row.next_attempt_at <= now)
        .where(row.endpoint == endpoint, ~in_work)
        .where(row.plan_only if only_plans else true())
        .order_by(row.plan_only.desc(), row.next_attempt_at, row.created_at)
        .limit(1)
        .with_for_update(skip_locked=True, of=row)
    )
    found = session.scalars(due).one_or_none()
    if found is None:
        return None
    found.state = "running"
    found.attempts += 1
    found.holder = holder
    found.bytes_begun = found.bytes_done
    session.flush()
    session.execute(_mine(found.id, found.attempts).values(_held() | {"begun_at": now}))
    return ClaimedFetch(
        id=found.id,
        number=found.attempts,
        project_id=found.project_id,
        owner_id=found.owner_id,
        folder=found.name,
        endpoint=found.endpoint,
        name=HubName(repository=found.repository, revision=found.revision),
        commit=found.commit,
        base_model=found.base_model,
        dataset=found.dataset,
        plan_only=found.plan_only,
        push=found.push,
    )


def is_anything_due(session: Session, endpoint: str) -> bool:
    """Return True if a fetch of a hub is due, even one that must wait."""
    row = HubFetch
    due = row.state.in_(ACTIVE_FETCH_STATES), row.next_attempt_at <= func.clock_timestamp()
    return session.scalars(select(exists().where(*due, row.endpoint == endpoint))).one()


def hold(session: Session, claimed: ClaimedFetch, **changes: Any) -> None:
    """Record changes of a fetch, and hold it for longer; raises `NotHeld`."""
    _change(session, claimed, _held() | changes)


def wait(
    session: Session, claimed: ClaimedFetch, code: str, error: str, seconds: float | None
) -> None:
    """End an attempt that may succeed later; raises `NotHeld`.

    A hub that asks for time does not count as a failure.
    """
    row = session.get_one(HubFetch, claimed.id)
    has_progress = row.bytes_done > row.bytes_begun
    failures = 0 if has_progress else row.failures + (seconds is None)
    if failures >= MOST_FAILURES:
        fail(session, claimed, code, error)
        return
    delay = DELAYS.after(failures) if seconds is None else timedelta(seconds=seconds)
    values = {"state": "pending", "holder": None, "code": code, "error": error}
    due = func.clock_timestamp() + min(delay, LONGEST_DELAY)
    _change(session, claimed, values | {"failures": failures, "next_attempt_at": due})


def give_back(session: Session, claimed: ClaimedFetch) -> None:
    """Leave a fetch to another process at once; raises `NotHeld`."""
    due = func.clock_timestamp()
    _change(session, claimed, {"state": "pending", "holder": None, "next_attempt_at": due})


def fail(session: Session, claimed: ClaimedFetch, code: str, error: str) -> None:
    """End a fetch for good, and fail the jobs that wait for it.

    Raises `NotHeld`.
    """
    _end(session, claimed, "failed", {"code": code, "error": error})
    if claimed.brings_model:
        coming_folders.lost(session, claimed.project_id, claimed.folder, error)


def succeed(session: Session, claimed: ClaimedFetch, job_id: UUID | None) -> None:
    """End a fetch whose folder is there; raises `NotHeld`."""
    _end(session, claimed, "succeeded", {"job_id": job_id, "code": None, "error": None})


def forget_old(session: Session) -> int:
    """Delete ended fetches after `KEPT_DAYS`; return their number."""
    old = HubFetch.ended_at < func.clock_timestamp() - timedelta(days=KEPT_DAYS)
    gone = delete(HubFetch).where(old).returning(HubFetch.id)
    return len(session.execute(gone, execution_options={"synchronize_session": False}).all())


def _end(session: Session, claimed: ClaimedFetch, state: str, values: dict[str, Any]) -> None:
    ended = {"state": state, "holder": None, "ended_at": func.clock_timestamp()}
    _change(session, claimed, values | ended)


def _change(session: Session, claimed: ClaimedFetch, values: dict[str, Any]) -> None:
    changed = session.execute(
        _mine(claimed.id, claimed.number)
        .values(values)
        .returning(HubFetch.id)
        .execution_options(synchronize_session=False)
    )
    if changed.one_or_none() is None:
        raise NotHeld


def _mine(fetch_id: UUID, number: int) -> Any:  # an update, whose type says nothing more
    row = HubFetch
    return update(row).where(row.id == fetch_id, row.attempts == number, row.state == "running")


def _held() -> dict[str, Any]:
    return {"next_attempt_at": func.clock_timestamp() + HOLD}
