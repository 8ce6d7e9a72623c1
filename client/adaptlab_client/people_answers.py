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
    job: str | None = None
    state: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class NewToken(TokenEntry):
    """A token just made; `token` is its text, which cannot be had again."""

    token: str


class QueueUse(Answer):
    """Hours of your jobs' attempts in one queue; None where there is no limit.

    `frees_at` is when there is room again, if there is none and no more are used.
    """

    queue: str
    hours: float
    most_hours: float | None = None
    frees_at: datetime | None = None


class UserUsage(Answer):
    """What you have used in the last `days`, and store."""

    days: int
    queues: tuple[QueueUse, ...] = ()
    stored_bytes: int
    most_stored_bytes: int | None = None
    counted_at: datetime


class Me(Answer):
    """Who you are to the server, and what you have used of it."""

    user: str
    is_admin: bool = False
    token: TokenEntry
    projects: tuple[ProjectEntry, ...] = ()
    usage: UserUsage | None = None


class Quotas(Answer):
    """What a user may use; what is not said here is as the server's settings say."""

    queue_hours: dict[str, float] = {}  # noqa: RUF012 - pydantic copies it
    stored_bytes: int | None = None


class UserEntry(Answer):
    """A user; `is_admin` of the whole server."""

    name: str
    is_admin: bool
    is_active: bool
    created_at: datetime
    quotas: Quotas = Quotas()


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
