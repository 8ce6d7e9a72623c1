"""The look at many jobs that watchers share, over one connection."""

from uuid import uuid4

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job

from adaptlab_db.session import create_engine
from adaptlab_services.lifecycle.events import Lookout, pulse_of

END_ALL = """
    SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def test_a_look_sees_what_was_committed_since(sessions: sessionmaker[Session]) -> None:
    lookout = Lookout(sessions)
    assert lookout([uuid4()]) == {}
    with sessions.begin() as session:
        job_id = a_job(session, state="queued")
        expected = pulse_of(session, job_id)
        assert lookout([job_id]) == {}
    assert lookout([job_id, uuid4()]) == {job_id: expected}
    lookout.rest()


def test_a_look_goes_on_where_its_connection_was_ended(
    sessions: sessionmaker[Session], database_url: str
) -> None:
    lookout = Lookout(sessions)
    assert lookout([uuid4()]) == {}
    engine = create_engine(database_url)
    with engine.begin() as connection:
        assert all(connection.scalars(text(END_ALL)))
    engine.dispose()
    assert lookout([uuid4()]) == {}
    lookout.rest()
