"""Trackers of projects: added, listed and removed."""

from typing import Annotated, Any, cast

from pydantic import Field
from sqlalchemy import Row, Select, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.values import Value
from adaptlab_answers.paging import Page
from adaptlab_answers.trackers.views import TrackerKind, TrackerView
from adaptlab_db.tables import Project, Study, TrackedStudy, Tracker, User
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.hub.sealing import Seal
from adaptlab_services.limits.addresses import LONGEST_URL, AddressRefused, AddressRules
from adaptlab_services.people import access, audit
from adaptlab_services.people.access import Access, is_at_least
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

MOST_TRACKERS = 5
"""Limit on the trackers of a project."""
LONGEST_TOKEN = 2000


class NewTracker(Value):
    """A tracker to add to the request's project.

    `url` is the address of the server, `experiment` that of MLflow or the project of Trackio, which
    is created if it is not there. `token` is sent with each request: to MLflow as a bearer token
    or, with a colon, as user and password; to Trackio as its write token.
    """

    kind: TrackerKind
    url: Annotated[str, Field(min_length=1, max_length=LONGEST_URL)]
    experiment: Annotated[str, Field(pattern=r"^[\w][\w .:/-]{0,99}$")] = "adaptlab"
    token: str | None = Field(
        default=None, pattern=r"^[\x21-\x7e]+$", max_length=LONGEST_TOKEN, repr=False
    )


def add(session: Session, principal: Principal, new: NewTracker, settings: Settings) -> TrackerView:
    """Add a tracker, to which all studies of the project are then sent.

    Raises:
        Forbidden: the caller is not an admin of the project.
        InvalidSpec: the server sends nothing to this address.
        StateConflict: the project has this tracker, or `MOST_TRACKERS`.
    """
    project_id = access.project_of(session)
    access.check_admin(session, project_id)
    _check_url(new.url, AddressRules.of(settings))
    # Locked, so that two requests at once cannot exceed the limit.
    session.execute(select(Project.id).where(Project.id == project_id).with_for_update())
    here = session.scalars(select(Tracker).where(Tracker.project_id == project_id)).all()
    place = (new.kind, new.url, new.experiment)
    if any((one.kind, one.url, one.experiment) == place for one in here):
        raise StateConflict("The project has this tracker already. Remove it to change its token.")
    if len(here) >= MOST_TRACKERS:
        raise StateConflict(f"The project has {MOST_TRACKERS} trackers, the limit. Remove one.")
    sealed = None
    if new.token is not None:
        sealed = Seal.of(settings).close(new.token, place_of(project_id, new.kind, new.url))
    values = {
        "project_id": project_id,
        "owner_id": principal.user_id,
        **dict(zip(("kind", "url", "experiment"), place, strict=True)),
        "sealed": sealed,
    }
    tracker_id = session.scalars(insert(Tracker).values(values).returning(Tracker.id)).one()
    _track_all(session, tracker_id, project_id)
    audit.note(session, kind=new.kind)
    return _view(session.execute(_rows().where(Tracker.id == tracker_id)).one())


def listed(session: Session, rights: Access) -> Page[TrackerView]:
    """Return the trackers of projects in which the caller is an operator."""
    rows = session.execute(_rows().order_by(Tracker.id)).all()
    shown = [one for one in rows if is_at_least(rights.role_in(one.Tracker.project_id), "operator")]
    return Page(data=tuple(map(_view, shown)), next_page_token=None)


def remove(session: Session, tracker_id: int) -> None:
    """Remove a tracker; what was sent to it stays there.

    Raises `Absent`, and `Forbidden` for callers who are no admins of its project.
    """
    query = select(Tracker.project_id).where(Tracker.id == tracker_id)
    project_id = session.scalars(query).one_or_none()
    if project_id is None:
        raise Absent("tracker", tracker_id)
    access.check_admin(session, project_id)
    session.execute(delete(Tracker).where(Tracker.id == tracker_id))


def place_of(project_id: int, kind: TrackerKind, url: str) -> str:
    """Return the place at which a tracker's token opens: no other address."""
    return f"tracker {project_id} {kind} {url}"


def _check_url(url: str, rules: AddressRules) -> None:
    try:
        rules.check_url(url)
        if "?" in url:
            raise AddressRefused("The address has a query. Give a token by itself.")
    except AddressRefused as error:
        raise InvalidSpec(Problem("/url", "refused_address", str(error))) from error


def _track_all(session: Session, tracker_id: int, project_id: int) -> None:
    studies = select(literal(tracker_id), Study.id).where(Study.project_id == project_id)
    written = insert(TrackedStudy).from_select(["tracker_id", "study_id"], studies)
    session.execute(written, execution_options=ACROSS_PROJECTS)  # the project was checked


def _rows() -> Select[Any, Any, Any, Any, Any]:
    study = TrackedStudy
    of_tracker = study.tracker_id == Tracker.id
    waiting = select(func.count()).where(of_tracker, study.due_at.is_not(None))
    error = select(study.error).where(of_tracker, study.error.is_not(None))
    return (
        select(
            Tracker,
            Project.name.label("project"),
            User.name.label("owner"),
            waiting.correlate(Tracker).scalar_subquery().label("waiting"),
            error.order_by(study.due_at.desc()).limit(1).correlate(Tracker).scalar_subquery()
            .label("error"),
        )
        .join(Project, Project.id == Tracker.project_id)
        .join(User, User.id == Tracker.owner_id)
    )  # fmt: skip


def _view(row: Row[Any, Any, Any, Any, Any]) -> TrackerView:
    tracker: Tracker = row.Tracker
    return TrackerView(
        id=tracker.id,
        project=row.project,
        owner=row.owner,
        kind=cast("TrackerKind", tracker.kind),
        url=tracker.url,
        experiment=tracker.experiment,
        has_token=tracker.sealed is not None,
        created_at=tracker.created_at,
        waiting=row.waiting,
        sent_at=tracker.sent_at,
        error=row.error,
        next_attempt_at=tracker.next_attempt_at if tracker.failures else None,
    )
