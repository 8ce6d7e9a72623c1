"""Users, their tokens and projects, what they used, and what was done."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from adaptlab.specs.spec import Queue
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.moments import Moment


class ProjectView(Value):
    """A project, and the role in it of who asks."""

    name: str
    role: str | None
    created_at: Moment


class Projects(Value):
    """The projects that the asker sees, by name."""

    data: tuple[ProjectView, ...]


class MemberView(Value):
    """Somebody's role in a project."""

    user: str
    role: str
    created_at: Moment


class Members(Value):
    """The members of a project, by name."""

    data: tuple[MemberView, ...]


LARGEST_BYTES = 2**53


MOST_QUEUES = 16


Hours = Annotated[float, Field(ge=0, le=10**6)]


class Quotas(Value):
    """What one user may use; what is not said here is as the server's settings say.

    `queue_hours` are hours of attempts in the queue of that name, in thirty days.
    """

    queue_hours: Annotated[dict[Queue, Hours], Field(max_length=MOST_QUEUES)] = Field(
        default_factory=dict[Queue, Hours]
    )
    stored_bytes: Annotated[int, Field(ge=0, le=LARGEST_BYTES)] | None = None


class QueueUse(Value):
    """Hours of attempts in one queue; with nothing more, there is room again at `frees_at`."""

    queue: str
    hours: float
    most_hours: float | None
    frees_at: Moment | None


class UserUsage(Value):
    """What somebody has used in the last `days`, and stores; None where there is no limit.

    What jobs did and stored is as of `counted_at`; uploads and datasets are as of now.
    """

    days: int
    queues: tuple[QueueUse, ...]
    stored_bytes: int
    most_stored_bytes: int | None
    counted_at: Moment


class TokenView(Value):
    """What is known of a token; its text is shown once, when it is made.

    One of a `job` opens the leases of that one, and expires soon after it has ended.
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
    """A new token, with its text: `token` cannot be had again."""

    token: str


class Me(Value):
    """Who is asking, what their token opens, and what they have used."""

    user: str
    is_admin: bool
    token: TokenView
    projects: tuple[ProjectView, ...]
    usage: UserUsage


class UserView(Value):
    """A user; `is_admin` of the whole server, and `quotas` where the server's do not hold."""

    name: str
    is_admin: bool
    is_active: bool
    quotas: Quotas
    created_at: Moment


class AuditView(Value):
    """One thing that was done or refused.

    `action` is the name of the operation, `object` what it was done to or what it made, and
    `status` the answer's. `details` are other facts: the rights that were given or taken, asked
    for where it was refused, or how many like it were left out.
    """

    id: int
    at: Moment
    actor: str | None
    token_id: int | None
    address: str | None
    action: str
    object: str | None
    status: int
    request_id: UUID
    details: JsonObject | None
