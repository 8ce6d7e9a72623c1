"""What the server answers about tokens, users, projects and what was done."""

from datetime import datetime

from pydantic import JsonValue

from adaptlab_client.answers import Answer


class ProjectEntry(Answer):
    """A project, and your role in it."""

    name: str
    role: str | None = None
    created_at: datetime


class Projects(Answer):
    """The projects that you see."""

    data: tuple[ProjectEntry, ...]


class MemberEntry(Answer):
    """Somebody's role in a project."""

    user: str
    role: str
    created_at: datetime


class Members(Answer):
    """Who is in a project."""

    data: tuple[MemberEntry, ...]


class TokenEntry(Answer):
    """What is known of a token; its text is not."""

    id: int
    name: str
    user: str
    scopes: tuple[str, ...]
    project: str | None = None
    state: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class NewToken(TokenEntry):
    """A token just made; `token` is its text, which cannot be had again."""

    token: str


class Me(Answer):
    """Who you are to the server."""

    user: str
    is_admin: bool = False
    token: TokenEntry
    projects: tuple[ProjectEntry, ...] = ()


class UserEntry(Answer):
    """A user; `is_admin` of the whole server."""

    name: str
    is_admin: bool
    is_active: bool
    created_at: datetime


class AuditEntry(Answer):
    """One thing that somebody did, or was refused."""

    id: int
    at: datetime
    actor: str | None = None
    token_id: int | None = None
    address: str | None = None
    action: str
    object: str | None = None
    status: int
    request_id: str
    details: dict[str, JsonValue] | None = None
