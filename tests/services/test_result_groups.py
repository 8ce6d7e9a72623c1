"""How groups are read; tests/api/test_queries.py has what is in them."""

import pytest
from sqlalchemy import event, text
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.results.result_groups import PARALLEL_WORKERS, groups
from adaptlab_services.results.result_queries import Question

SETTING = "SHOW max_parallel_workers_per_gather"


@pytest.fixture
def allowed(sessions: sessionmaker[Session]) -> list[str]:
    """Parallel workers of each statement that reads metrics."""
    seen: list[str] = []

    def look(connection: Connection, _: object, statement: str, *__: object) -> None:
        if "job_metrics" in statement:
            seen.append(str(connection.exec_driver_sql(SETTING).scalar_one()))

    event.listen(sessions.kw["bind"], "before_cursor_execute", look)
    return seen


def test_groups_alone_are_read_in_parallel(sessions: sessionmaker[Session], allowed: list[str]):
    with sessions() as session:
        groups(session, Question("results"), ["method"], "accuracy")
        afterwards = session.execute(text(SETTING)).scalar_one()

    assert set(allowed) == {str(PARALLEL_WORKERS)}
    assert afterwards == "0", "the lists of the same request would take all cores"
