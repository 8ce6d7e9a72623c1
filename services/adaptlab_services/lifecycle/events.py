"""Ordered events of a job, and pulses by which watchers notice new ones."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ARRAY, Connection, Engine, Uuid, any_, bindparam, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_answers.jobs import EventPage, EventView
from adaptlab_db.job_states import TERMINAL_STATES
from adaptlab_db.tables import Job, JobEvent
from adaptlab_services.errors import Absent

LARGEST_EVENT_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Pulse:
    """The columns of a job whose change is news for a watcher."""

    state: str
    sequence: int
    step: int
    total: int
    phase: str | None = None
    phase_done: int | None = None
    phase_total: int | None = None

    @property
    def terminal(self) -> bool:
        """Return True if the job has ended."""
        return self.state in TERMINAL_STATES


def after(
    session: Session, job_id: UUID, after: int = 0, limit: int = LARGEST_EVENT_PAGE
) -> EventPage:
    """Return the events of a job numbered above `after`, oldest first.

    Raises `Absent` if there is no such job.
    """
    pulse = pulse_of(session, job_id)
    rows = session.execute(
        select(JobEvent)
        .where(JobEvent.job_id == job_id, JobEvent.sequence > after)
        .order_by(JobEvent.sequence)
        .limit(min(limit, LARGEST_EVENT_PAGE))
    ).scalars()
    data = tuple(
        EventView(
            sequence=row.sequence, at=row.at, type=row.type, attempt=row.attempt, data=row.data
        )
        for row in rows
    )
    last = data[-1].sequence if data else after
    return EventPage(data=data, next_after=last, terminal=pulse.terminal and last >= pulse.sequence)


def pulse_of(session: Session, job_id: UUID) -> Pulse:
    """Return the pulse of one job; raises `Absent`."""
    pulse = pulses(session, (job_id,)).get(job_id)
    if pulse is None:
        raise Absent("job", job_id)
    return pulse


def pulses(session: Session | Connection, job_ids: Collection[UUID]) -> dict[UUID, Pulse]:
    """Return the pulses of jobs by one statement.

    Jobs that do not exist are left out.
    """
    rows = session.execute(_PULSES, {"ids": list(job_ids)})
    return {row.id: Pulse(*row[1:]) for row in rows}


# An array, so that the statement is the same for any number of jobs.
_PULSES = select(
    *(Job.id, Job.state, Job.event_sequence, Job.step, Job.total_steps),
    *(Job.phase, Job.phase_done, Job.phase_total),
).where(Job.id == any_(bindparam("ids", type_=ARRAY(Uuid()))))


class Lookout:
    """A reader of pulses, over one connection that is kept until `rest`.

    A unit of work per look would take four times the processor time, several times a second. The
    reader serves the program itself, which sees every project.
    """

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._engine: Engine = sessions.kw["bind"]
        self._connection: Connection | None = None

    def __call__(self, job_ids: Collection[UUID]) -> Mapping[UUID, Pulse]:
        """Return the pulses of these jobs.

        Two threads must not call this at once.
        """
        try:
            return self._look(job_ids)
        except DBAPIError as error:
            self.rest()
            if not error.connection_invalidated:
                raise
        return self._look(job_ids)  # the connection has ended since, for example by a restart

    def rest(self) -> None:
        """Return the connection to the pool; the next look takes one again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _look(self, job_ids: Collection[UUID]) -> Mapping[UUID, Pulse]:
        if self._connection is None:
            kept = self._engine.connect()
            self._connection = kept.execution_options(isolation_level="AUTOCOMMIT")
        result = pulses(self._connection, job_ids)
        self._connection.commit()  # sends nothing, but ends SQLAlchemy's own transaction
        return result
