"""Tokens for a single job, with which a worker in a batch system runs it."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_answers.people import CreatedToken
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_db.tables import Job
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.people import access, audit, issued_tokens, token_rights, tokens
from adaptlab_services.people.tokens import WORKER, Principal

DEFAULT_HOURS = 72
MOST_HOURS = 336
"""Two weeks: one for the run, and one in the batch system's queue."""


class NewJobToken(Value):
    """The request for a token with which workers can run one job.

    With the token, they can do nothing else. It expires after these hours, with the caller's own
    token, or with the job, whichever is first.
    """

    name: Annotated[str, Field(min_length=1, max_length=64)] = "batch job"
    expires_in_hours: Annotated[int, Field(ge=1, le=MOST_HOURS)] = DEFAULT_HOURS


def create(session: Session, principal: Principal, job_id: UUID, new: NewJobToken) -> CreatedToken:
    """Create a token with the scope `worker` for one job.

    The job is one that the caller may change. The caller's own token does not need that scope,
    because callers who may submit or cancel a job may also have it run. Raises `Absent`,
    `Forbidden`, and `StateConflict` for a job that has ended.
    """
    audit.note(session, scopes=[WORKER], expires_in_hours=new.expires_in_hours)
    query = select(Job.owner_id, Job.project_id, Job.state).where(Job.id == job_id)
    job = session.execute(query).one_or_none()
    if job is None:
        raise Absent("job", job_id)
    access.check_change(session, job.owner_id, job.project_id)
    if job.state in TERMINAL_STATES:
        raise StateConflict(
            f"Job {job_id} is {job.state}, so a token for it would be of no use. Retry the "
            "job, and create a token for the new one.",
            job.state,
        )
    requested = func.clock_timestamp() + timedelta(hours=new.expires_in_hours)
    ends = token_rights.end_of(session, principal, requested)
    text = tokens.create_token(
        session, principal.user_id, new.name, (WORKER,), ends, job.project_id, job_id
    )
    token = issued_tokens.created(session, text)
    audit.note(session, job=str(job_id), project=token.project, expires_at=str(token.expires_at))
    return token
