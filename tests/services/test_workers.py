"""Workers: who there is and what they serve."""

from sqlalchemy import func, text, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.tables import Worker
from adaptlab_services.lifecycle import workers

Sessions = sessionmaker[Session]


def test_a_worker_is_live_while_it_is_heard_of(sessions: Sessions) -> None:
    with sessions.begin() as session:
        heard = workers.register(session, "laptop", 1, ["cpu", "gpu"])
        silent = workers.register(session, "cluster", 2, ["big"])
        long_ago = func.clock_timestamp() - text("interval '61 seconds'")
        session.execute(update(Worker).where(Worker.id == silent).values(heartbeat_at=long_ago))
    with sessions.begin() as session:
        assert [(w.id, w.live) for w in workers.recent(session)] == [(heard, True), (silent, False)]
        assert workers.live_queues(session) == ("cpu", "gpu")
        workers.looks_for_work(session, silent)
        assert workers.live_queues(session) == ("big", "cpu", "gpu")
        workers.stop(session, heard)
        assert workers.live_queues(session) == ("big",)
