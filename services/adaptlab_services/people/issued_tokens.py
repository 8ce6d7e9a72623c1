"""Tokens as their users see them: created, listed and revoked."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import Session

from adaptlab.values import Name, Value
from adaptlab_answers.paging import Page
from adaptlab_answers.people import CreatedToken, Me, TokenView
from adaptlab_db.tables import Project, Token, User
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services import paging
from adaptlab_services.errors import Absent, Forbidden
from adaptlab_services.limits import quotas
from adaptlab_services.paging import Cursor
from adaptlab_services.people import (
    audit,
    invitations,
    projects,
    token_rights,
    tokens,
    users,
)
from adaptlab_services.people.access import Access
from adaptlab_services.people.tokens import Principal

Scope = Literal["read", "submit", "worker", "metrics", "admin"]
DEFAULT_DAYS = 90
MOST_DAYS = 365


class NewToken(Value):
    """A token to create, for the caller unless an admin names another `user`.

    Its permissions are its `scopes`, limited by its user's roles, and by `project` if given. It
    cannot have a scope that the creating token lacks, and expires no later than that token. Only
    admins of the server can create a token that never expires (`expires_in_days` null).
    """

    name: Annotated[str, Field(min_length=1, max_length=64)]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1, max_length=5)] = ("read", "submit")
    project: Name | None = None
    user: Name | None = None
    expires_in_days: Annotated[int, Field(ge=1, le=MOST_DAYS)] | None = DEFAULT_DAYS


def create(session: Session, principal: Principal, rights: Access, new: NewToken) -> CreatedToken:
    """Create a token.

    Raises:
        Forbidden: the new token would allow more than the caller's own.
        Absent: the user or the project does not exist.
    """
    facts: dict[str, object] = {"user": new.user or principal.name, "scopes": list(new.scopes)}
    audit.note(session, **facts, project=new.project, expires_in_days=new.expires_in_days)
    _check_creation(principal, rights, new)
    user_id = principal.user_id if new.user is None else users.id_of(session, new.user)
    project_id = principal.project_id
    if new.project is not None:
        project_id = projects.id_of(session, rights, new.project)
    requested_end = None
    if new.expires_in_days is not None:
        requested_end = func.clock_timestamp() + timedelta(days=new.expires_in_days)
    ends = token_rights.end_of(session, principal, requested_end)
    scopes = tuple(dict.fromkeys(new.scopes))
    text = tokens.create_token(session, user_id, new.name, scopes, ends, project_id)
    token = created(session, text)
    audit.note(session, project=token.project, expires_at=_iso(token.expires_at))
    return token


def created(session: Session, text: str) -> CreatedToken:
    """Return the description of a token that was just created, given its text."""
    row = session.execute(_rows().where(tokens.is_token(text))).one()
    return CreatedToken(**dict(_view(row)), token=text)


def page(
    session: Session,
    principal: Principal,
    rights: Access,
    user: str | None,
    page_size: int,
    page_token: str | None = None,
) -> Page[TokenView]:
    """Return the caller's tokens, newest first.

    Admins of the server get the tokens of all users, or of one `user`.
    """
    question = ("tokens", str(user))
    query = _rows().order_by(Token.id.desc()).limit(paging.page_limit(page_size))
    if not rights.is_admin:
        query = query.where(Token.user_id == principal.user_id)
    if user is not None:
        query = query.where(User.name == user)
    if page_token is not None:
        query = query.where(Token.id < paging.read(page_token, *question).row())
    rows = session.execute(query).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        token = paging.written(Cursor("", str(shown[-1].Token.id)), *question)
    return Page(data=tuple(_view(row) for row in shown), next_page_token=token)


def revoke(session: Session, principal: Principal, rights: Access, token_id: int) -> TokenView:
    """Revoke a token and the browser sessions that it opened, permanently.

    Raises:
        Absent: the token belongs to another user and the caller is not an admin of the server.
        Forbidden: the token allows more than the caller's own.
    """
    mine = [] if rights.is_admin else [Token.user_id == principal.user_id]
    row = session.execute(_rows().where(Token.id == token_id, *mine)).one_or_none()
    if row is None:
        raise Absent("token", token_id)
    view = _view(row)
    audit.note(session, user=view.user, scopes=list(view.scopes), project=view.project)
    token_rights.check_revocation(principal, rights, row.Token)
    session.execute(
        update(Token)
        .where(Token.id == token_id, Token.revoked_at.is_(None))
        .values(revoked_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    return _view(session.execute(_rows().where(Token.id == token_id)).one())


def me(session: Session, principal: Principal, rights: Access) -> Me:
    """Return the caller's user, token, projects and usage."""
    row = session.execute(_rows().where(Token.id == principal.token_id)).one()
    return Me(
        user=principal.name,
        is_admin=rights.is_admin,
        token=_view(row),
        projects=projects.listed(session, rights).data,
        usual_project=rights.project,
        invitations=invitations.pending(session, principal.user_id),
        usage=quotas.usage(session, principal.user_id),
    )


def _check_creation(principal: Principal, rights: Access, new: NewToken) -> None:
    token_rights.check_scopes(principal, new.scopes)
    if rights.is_admin:
        return
    if new.user not in (None, principal.name):
        raise Forbidden("Only an admin of the server can create tokens for other users.")
    if new.expires_in_days is None:
        raise Forbidden("Only an admin of the server can create a token that never expires.")


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _rows() -> Select[Any, Any, Any, Any]:
    return (
        select(Token, User.name, Project.name, tokens.is_over())
        .join(User, User.id == Token.user_id)
        .outerjoin(Project, Project.id == Token.project_id)
        .execution_options(populate_existing=True, **ACROSS_PROJECTS)
    )


def _view(row: Any) -> TokenView:  # Any: a row of `_rows`
    token, user, project, is_over = row
    state = "revoked" if token.revoked_at else "expired" if is_over else "valid"
    return TokenView(
        id=token.id,
        name=token.name,
        user=user,
        scopes=tuple(token.scopes),
        project=project,
        job=token.job_id,
        state=state,
        created_at=token.created_at,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
    )
