"""Links with which people without an account read one study.

A link's token is stored as its digest, opens nothing but the page of its study, and signs nobody
in. A link belongs to its study: every admin of the project can list and revoke it, and it stays
valid when its creator leaves.
"""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import Select, func, or_, select, union, update
from sqlalchemy.orm import Session

from adaptlab.errors import AdaptlabError
from adaptlab.values import Value
from adaptlab_answers.study_links import CreatedStudyLink, StudyLinkList, StudyLinkView
from adaptlab_db.tables import BaseModel, Study, StudyJob, StudyLink, StudyPass, User
from adaptlab_db.visibility import ACROSS_PROJECTS, LinkedStudy
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.people import access, audit, tokens
from adaptlab_services.people.access import Access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies.study_rows import study_row

SHARED_FOLDER = "/shared/"
"""The address below which links are, each followed by its token."""
DEFAULT_DAYS = 30
MOST_DAYS = 365
MOST_LINKS = 20
"""Limit on the valid links to one study."""


class NewStudyLink(Value):
    """A link to create; with `expires_in_days` null it is valid until revoked."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    expires_in_days: Annotated[int, Field(ge=1, le=MOST_DAYS)] | None = DEFAULT_DAYS


def create(
    session: Session, principal: Principal, study: str, new: NewStudyLink
) -> CreatedStudyLink:
    """Create a link to a study.

    Raises:
        Absent: there is no such study.
        Forbidden: the caller is not an admin of its project.
        StateConflict: the study has as many links as it can have.
    """
    row = _administered(session, study)
    audit.note(session, study=row.name, link=new.name, expires_in_days=new.expires_in_days)
    valid = select(func.count()).select_from(StudyLink).where(StudyLink.study_id == row.id)
    if session.scalars(valid.where(_is_valid())).one() >= MOST_LINKS:
        raise StateConflict(
            f"The study {row.name!r} has {MOST_LINKS} links, the most that it can have. Revoke one."
        )
    secret, digest = tokens.new_secret()
    end = None
    if new.expires_in_days is not None:
        end = func.clock_timestamp() + timedelta(days=new.expires_in_days)
    made = StudyLink(
        study_id=row.id,
        name=new.name,
        digest=digest,
        creator_id=principal.user_id,
        expires_at=end,
    )
    session.add(made)
    session.flush()
    link = _view(session.execute(_links(row).where(StudyLink.id == made.id)).one())
    return CreatedStudyLink(**dict(link), path=f"{SHARED_FOLDER}{secret}")


def listed(session: Session, study: str) -> StudyLinkList:
    """Return the links to a study, newest first; raises as `create`."""
    row = _administered(session, study)
    links = session.execute(_links(row).order_by(StudyLink.id.desc()))
    return StudyLinkList(data=tuple(map(_view, links)))


def revoke(session: Session, study: str, link_id: int) -> StudyLinkView:
    """Revoke a link permanently; repeated calls change nothing.

    Raises:
        Absent: there is no such study or link.
        Forbidden: the caller is not an admin of the study's project.
    """
    row = _administered(session, study)
    mine = _links(row).where(StudyLink.id == link_id)
    link = session.execute(mine).one_or_none()
    if link is None:
        raise Absent("link", link_id)
    audit.note(session, study=row.name, link=_view(link).name)
    change = update(StudyLink).where(StudyLink.id == link_id, StudyLink.revoked_at.is_(None))
    session.execute(
        change.values(revoked_at=func.clock_timestamp()).execution_options(
            synchronize_session=False
        )
    )
    return _view(session.execute(mine).one())


def opened(session: Session, secret: str) -> Access:
    """Return the permissions of a visitor by a link: to read its study alone.

    Raises:
        Absent: no valid link has this token. The message does not say why.
    """
    digest = tokens.digest_of(secret)
    wanted = select(StudyLink.study_id, Study.project_id).join(Study)
    link = session.execute(
        wanted.where(StudyLink.digest == digest, _is_valid()), execution_options=ACROSS_PROJECTS
    ).one_or_none()
    if digest is None or link is None:
        raise UnknownLink
    of_study = StudyJob.study_id == link.study_id
    names = select(StudyJob.base_model).where(of_study)
    of_base = (BaseModel.project_id == link.project_id, BaseModel.name.in_(names))
    jobs = union(
        select(StudyJob.job_id).where(of_study),
        select(StudyPass.job_id).where(StudyPass.study_id == link.study_id),
        select(BaseModel.job_id).where(*of_base),
    )
    ids = session.scalars(jobs, execution_options=ACROSS_PROJECTS).all()
    linked = LinkedStudy(link.study_id, tuple(sorted(ids)))
    return Access(is_admin=False, user_id=0, roles=(), project_id=None, visible=(), linked=linked)


class UnknownLink(Absent):
    """A link that is mistyped, expired or revoked, or whose study is deleted."""

    def __init__(self) -> None:
        AdaptlabError.__init__(
            self,
            "This link opens nothing. It may be incomplete, expired or revoked. Ask the person who "
            "sent it for a new one.",
        )
        self.kind = "link"
        self.id = ""


def _administered(session: Session, study: str) -> Study:
    row = study_row(session, study)
    access.check_admin(session, row.project_id)
    return row


def _is_valid() -> Any:  # Any: a condition
    # The database's clock, because all servers share it.
    is_open = or_(StudyLink.expires_at.is_(None), StudyLink.expires_at > func.clock_timestamp())
    return StudyLink.revoked_at.is_(None) & is_open


def _links(study: Study) -> Select[Any, Any, Any]:
    query = select(StudyLink, User.name, _is_valid()).join(User, User.id == StudyLink.creator_id)
    return query.where(StudyLink.study_id == study.id).execution_options(populate_existing=True)


def _view(row: Any) -> StudyLinkView:  # Any: a row of `_links`
    link, creator, is_valid = row
    state = "valid" if is_valid else "revoked" if link.revoked_at else "expired"
    return StudyLinkView(
        id=link.id,
        name=link.name,
        creator=creator,
        state=state,
        created_at=link.created_at,
        expires_at=link.expires_at,
        revoked_at=link.revoked_at,
    )
