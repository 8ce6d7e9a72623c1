"""How groups are read; tests/api/test_queries.py has what is in them."""

import pytest
from sqlalchemy import delete, event, text, update
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_job, an_adapt_spec

from adaptlab_db.tables import JobMetric
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


@pytest.mark.parametrize(
    ("metric", "first"),
    [
        ("accuracy", "prefix_tuning"),
        ("token_f1", "prefix_tuning"),
        ("final_loss", "lora"),
        ("validation_loss", "lora"),
        ("perplexity", "lora"),
    ],
)
def test_the_best_mean_is_first(sessions: sessionmaker[Session], metric: str, first: str):
    with sessions.begin() as session:
        a_base_model(session)
        for method in ("lora", "prefix_tuning"):
            a_job(session, an_adapt_spec(method=method, budget=64))
    values = {"lora": 0.25, "prefix_tuning": 0.5}
    run_all(sessions, lambda spec: Run(loss=values[str((spec.method or {})["name"])]))
    with sessions.begin() as session:
        # The values of the loss under another name, lower for LoRA.
        session.execute(delete(JobMetric).where(JobMetric.name != "final_loss"))
        session.execute(update(JobMetric).values(name=metric))
        rows = groups(session, Question("results"), ["method"], metric).data
    assert [row["mean"] for row in rows] == sorted(values.values(), reverse=first != "lora")
    assert rows[0]["method"] == first
