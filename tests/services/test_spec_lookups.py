"""Rare values of specs are found by an index, as by reading all jobs."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Select, event, select, text
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, an_adapt_spec

from adaptlab_db.tables import Job, SpecNumber
from adaptlab_services.querying import spec_lookups
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Joins
from adaptlab_services.querying.job_fields import job_fields

Sessions = sessionmaker[Session]
FILTERS = (
    "spec.training.steps = 4",
    "spec.training.steps = 4.0",
    "spec.training.steps = 5",
    'spec.training.steps = "4"',
    "spec.training.steps IN (4, 7, 1e400)",
    "spec.training.steps IN (4, null)",
    "spec.training.steps != 4",
    "NOT spec.training.steps > 4",
    "spec.training.steps > 4",
    "spec.training.steps >= 4 AND spec.training.steps < 9",
    "spec.training.steps < 0",
    "spec.training.warmup_fraction >= 0.05",
    "spec.method.name = lora OR spec.method.length = 1",
    "spec.method.name = LORA",
    "spec.method.name ~ LORA",
    "spec.family.attention_norm = true",
    'spec.family.attention_norm = "false"',
    "spec.seeds.0 = 1",
    'spec.seeds = "[0, 1]"',
    "spec.seeds = 0",
    "spec.model_folder = null",
    "spec.model_folder IS NOT NULL",
    "spec.training > 3",
    'spec.task.name = "x\\"y"',
    "spec.no.such > 1e308",
    "spec.training.steps > 1e-99999",
    "spec.training.steps > -1e-99999",
    "spec.training.warmup_fraction >= 0.05000000000000000001",
    "spec.training.warmup_fraction <= 0.0499999999999999999999",
    "spec.training.steps < 9007199254740993",
    "spec.training.steps = 9007199254740993",
)


@pytest.fixture
def jobs(sessions: Sessions) -> Iterator[Session]:
    """Jobs that differ in method, seeds and steps."""
    with sessions.begin() as session:
        a_base_model(session)
        for steps in (4, 7, 9):
            training = {"steps": steps, "batch_size": 4}
            a_job(session, an_adapt_spec(method="lora", budget=64, training=training))
            a_job(session, an_adapt_spec(seeds=(1, 0), training=training))
        yield session


def having(filter_text: str, joins: Joins) -> Select[UUID]:
    holds = condition(filter_text, job_fields(), joins)
    assert holds is not None
    return joins.onto(select(Job.id)).where(holds)


@pytest.mark.long("every combination", but=5)
@pytest.mark.parametrize("filter_text", FILTERS)
def test_a_lookup_finds_what_reading_every_job_finds(jobs: Session, filter_text: str) -> None:
    looked_up = set(jobs.scalars(having(filter_text, Joins(jobs))))
    assert looked_up == set(jobs.scalars(having(filter_text, Joins())))


@pytest.mark.parametrize("operator", ["!=", "NOT IN"])
def test_what_is_negated_is_not_looked_up(jobs: Session, operator: str) -> None:
    values = "(4)" if operator == "NOT IN" else "4"
    for text_of in (f"spec.training.steps {operator} {values}", "NOT (spec.training.steps = 4)"):
        having(text_of, joins := Joins(jobs))
        assert joins.lookups == 0


def test_frequent_values_and_many_comparisons_are_read(
    jobs: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = set(jobs.scalars(having("spec.training.steps >= 4", Joins())))
    assert len(expected) == 7  # with the base model
    many = " AND ".join(["spec.training.steps >= 4"] * (spec_lookups.MOST_LOOKUPS + 1))
    assert set(jobs.scalars(having(many, Joins(jobs)))) == expected
    for limit in ("MOST_RARE", "MOST_VALUES"):
        with monkeypatch.context() as patch:
            patch.setattr(spec_lookups, limit, 2)
            query = having("spec.training.steps >= 4", Joins(jobs))
        assert "resolved_spec" in str(query.whereclause)
        assert set(jobs.scalars(query)) == expected


@pytest.mark.parametrize(
    "filter_text",
    ["spec.training.steps = 5", "spec.training.steps > 1000", 'spec.method.name IN ("x", "y")'],
)
def test_a_value_that_no_job_has_reads_no_job(jobs: Session, filter_text: str) -> None:
    """By the index: at 100,000 jobs, reading all took 0.6 s."""
    statements: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        statements.append((statement, parameters))

    engine = jobs.get_bind()
    event.listen(engine, "before_cursor_execute", note)
    try:
        query = having(filter_text, Joins(jobs))
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert "resolved_spec" not in str(query.whereclause)
    jobs.execute(text("SET LOCAL enable_seqscan = off"))
    for statement, parameters in statements:
        explained = jobs.connection().exec_driver_sql(f"EXPLAIN {statement}", parameters)
        plan = "\n".join(explained.scalars())
        assert "ix_jobs_spec" in plan or "ix_spec_numbers_path_number" in plan


def test_numbers_of_new_jobs_are_there_once(jobs: Session) -> None:
    numbers = jobs.execute(select(SpecNumber.path, SpecNumber.number)).all()
    assert len(numbers) == len(set(numbers))
    steps = {int(number) for path, number in numbers if path == "training.steps"}
    assert {4, 7, 9} <= steps
    assert not [path for path, _ in numbers if path.startswith(("seeds", "training.trials"))]
