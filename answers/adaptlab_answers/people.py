"""Users with their tokens, projects and usage, and the audit log."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from adaptlab.values import Queue, Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.moments import Moment


class ProjectView(Value):
    """A project and the caller's role in it."""

    name: str
    role: str | None
    created_at: Moment


class Projects(Value):
    """The projects visible to the caller, by name."""

    data: tuple[ProjectView, ...]


class MemberView(Value):
    """A member of a project and the member's role.

    Without `accepted_at`, the user is invited and has no permission yet.
    """

    user: str
    role: str
    created_at: Moment
    accepted_at: Moment | None


class InvitationView(Value):
    """An invitation of the caller to a project, which gives no permission yet."""

    project: str
    role: str
    created_at: Moment


class Members(Value):
    """The members of a project, by name."""

    data: tuple[MemberView, ...]


LARGEST_BYTES = 2**53
MOST_QUEUES = 16
Hours = Annotated[float, Field(ge=0, le=10**6)]


class Quotas(Value):
    """One user's quotas; the server's settings apply to those not set.

    `queue_hours` are hours of attempts per queue in thirty days.
    """

    queue_hours: Annotated[dict[Queue, Hours], Field(max_length=MOST_QUEUES)] = Field(
        default_factory=dict[Queue, Hours]
    )
    stored_bytes: Annotated[int, Field(ge=0, le=LARGEST_BYTES)] | None = None


class QueueUse(Value):
    """Hours of attempts in one queue, and the limit.

    If no further jobs run, usage is below the limit again at `frees_at`.
    """

    queue: str
    hours: float
    most_hours: float | None
    frees_at: Moment | None


class UserUsage(Value):
    """A user's queue hours in the last `days` days, and stored bytes.

    Limits are null if there are none. Figures of jobs are as of `counted_at`; those of uploads and
    datasets are current.
    """

    days: int
    queues: tuple[QueueUse, ...]
    stored_bytes: int
    most_stored_bytes: int | None
    counted_at: Moment


class TokenView(Value):
    """A token without its text, which is returned once, on creation.

    A token with a `job` is valid for the leases of that job, and expires soon after it has ended.
    """

    id: int
    name: str
    user: str
    scopes: tuple[str, ...]
    project: str | None
    job: UUID | None
    state: Literal["valid", "expired", "revoked"]
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None


class CreatedToken(TokenView):
    """A new token with its text in `token`, which is not returned again."""

    token: str


class Me(Value):
    """The caller with token, projects and usage.

    Requests that name no project concern the `usual_project`.
    """

    user: str
    is_admin: bool
    token: TokenView
    projects: tuple[ProjectView, ...]
    usual_project: str | None
    invitations: tuple[InvitationView, ...]
    usage: UserUsage


class UserView(Value):
    """A user, with the quotas that override those of the server.

    `is_admin` applies to the whole server.
    """

    name: str
    is_admin: bool
    is_active: bool
    quotas: Quotas
    created_at: Moment


class AuditView(Value):
    """An entry of the audit log: an operation that was carried out or refused.

    `action` is the name of the operation, `object` the thing that it changed or created, and
    `status` the HTTP status of the answer. `details` are further facts, such as permissions that
    were granted, revoked or refused, or the number of similar entries that were left out.
    """

    id: int
    at: Moment
    actor: str | None
    token_id: int | None
    address: str | None
    action: str
    object: str | None
    status: int
    request_id: str
    details: JsonObject | None
