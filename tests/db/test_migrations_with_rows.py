"""Databases with jobs in every state are migrated, down and up again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import make_url
from tests.db.rows_of_revisions import (
    TRAINING,
    job_id,
    write_import,
    write_records,
    write_rows,
    write_words,
)

from adaptlab_db.job_states import JOB_STATES
from adaptlab_db.migrate import downgrade, drift, upgrade

TABLES = (
    "users", "tokens", "artifacts", "artifact_chunks", "workers", "jobs", "base_models", "attempts",
    "replicates", "metric_points", "evaluations", "item_outcomes", "attention_maps", "checkpoints",
    "job_events",
)  # fmt: skip
JOBS = """
    SELECT id, state, attempt, step, labels, spec_digest, lease_expires_at, finished_at
    FROM jobs ORDER BY id"""


@dataclass(frozen=True)
class Content:
    """What migrations keep: jobs, their trainings, and rows per table."""

    jobs: Mapping[object, tuple[object, ...]]
    trainings: Mapping[object, object]
    counts: Mapping[str, object]

    def shows(self, earlier: "Content") -> bool:
        """Return True if the jobs of an earlier look are as they were."""
        return earlier.jobs.items() <= self.jobs.items()


def revisions() -> list[str]:
    """Every revision, oldest first."""
    configuration = Config()
    configuration.set_main_option("script_location", "adaptlab_db:migrations")
    scripts = ScriptDirectory.from_config(configuration).walk_revisions()
    return sorted(script.revision for script in scripts)


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        yield connection


def content(url: str) -> Content:
    with connected(url) as connection:
        counts = {
            table: connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
            for table in TABLES
        }
        trainings = connection.execute("SELECT id, resolved_spec->'training' FROM jobs")
        return Content(
            jobs={row[0]: row for row in connection.execute(JOBS)},
            trainings=dict(trainings.fetchall()),
            counts=counts,
        )


@pytest.mark.long("every migration path")
def test_jobs_in_every_state_are_migrated_from_and_to_every_revision(
    empty_database_url: str,
) -> None:
    """Up with rows of each revision, down by double steps, and up again."""
    url = empty_database_url
    looks: dict[str, Content] = {}
    for revision in revisions():
        upgrade(url, revision)
        with connected(url) as connection:
            write_rows(connection, revision)
        looks[revision] = content(url)
    newest = after = content(url)
    assert len(newest.jobs) == len(looks) * len(JOB_STATES)
    assert all(map(newest.shows, looks.values()))
    assert all(training == TRAINING for training in newest.trainings.values())
    for later, revision in pairwise(reversed(looks)):
        downgrade(url, revision)
        before = content(url)
        assert (before.jobs, before.counts) == (newest.jobs, newest.counts), f"down to {revision}"
        assert looks[revision].trainings.items() <= before.trainings.items(), revision
        upgrade(url, later)
        assert content(url) == after, f"up to {later} again"
        downgrade(url, revision)
        assert content(url) == before, f"down to {revision} again"
        after = before
    upgrade(url)
    assert content(url) == newest
    assert drift(url) == []


@pytest.mark.long("every migration path", but=1)
@pytest.mark.parametrize("revision", ["0001", "0004", "0011"])
def test_ended_jobs_are_guarded_after_every_direction(
    empty_database_url: str, revision: str
) -> None:
    upgrade(empty_database_url, revision)
    with connected(empty_database_url) as connection:
        write_rows(connection, revision)
    upgrade(empty_database_url)
    refuses_changes(empty_database_url, revision)
    downgrade(empty_database_url, revision)
    refuses_changes(empty_database_url, revision)


@pytest.mark.long("every migration path", but=1)
@pytest.mark.parametrize("revision", ["0001", "0023"])
def test_numbers_of_specs_are_those_of_the_jobs_there_and_of_new_ones(
    empty_database_url: str, revision: str
) -> None:
    upgrade(empty_database_url, revision)
    with connected(empty_database_url) as connection:
        write_rows(connection, revision)
    upgrade(empty_database_url)
    with connected(empty_database_url) as connection:
        numbers = set(connection.execute("SELECT path, number FROM spec_numbers").fetchall())
        training = {
            (f"training.{name}", value)
            for name, value in TRAINING.items()
            if isinstance(value, int | float)
        }
        assert training
        assert training <= numbers
        copy = """
            INSERT INTO jobs SELECT (jsonb_populate_record(jobs, jsonb_build_object(
                'id', gen_random_uuid(), 'resolved_spec', %s::jsonb))).*
            FROM jobs WHERE state = 'queued'"""
        spec = '{"training": {"steps": 77, "trials": [1]}, "a.b": 1, "deep": {"er": {"x": 0.5}}}'
        connection.execute(copy, [spec])
        connection.execute(copy, [spec])
        after = connection.execute("SELECT path, number FROM spec_numbers").fetchall()
    assert len(after) == len(numbers) + 2
    assert {(path, float(number)) for path, number in set(after) - numbers} == {
        ("training.steps", 77.0),
        ("deep.er.x", 0.5),
    }


def refuses_changes(url: str, revision: str) -> None:
    with (
        connected(url) as connection,
        pytest.raises(psycopg.errors.CheckViolation, match="has ended as succeeded"),
    ):
        connection.execute(
            "UPDATE jobs SET step = 1 WHERE id = %s", [job_id("succeeded", revision)]
        )


@pytest.mark.long("every migration path")
def test_what_the_newest_revision_holds_is_taken_back_to_the_first_one(
    empty_database_url: str,
) -> None:
    """With an ended import, whose task the first revisions require."""
    upgrade(empty_database_url)
    with connected(empty_database_url) as connection:
        write_rows(connection, revisions()[-1])
        write_import(connection)
    before = content(empty_database_url)
    downgrade(empty_database_url, "0001")
    upgrade(empty_database_url)
    after = content(empty_database_url)
    assert (after.jobs, after.counts) == (before.jobs, before.counts)
    with connected(empty_database_url) as connection:
        tasks = connection.execute("SELECT task FROM jobs WHERE kind = 'import'").fetchall()
    assert tasks == [("",)]


def kinds(url: str, column: str = "kind") -> list[tuple[str, object]]:
    """The name of each dataset, and one column of it."""
    with connected(url) as connection:
        query = f"SELECT name, {column} FROM datasets ORDER BY name"
        return connection.execute(query.encode()).fetchall()


@pytest.mark.long("every migration path")
def test_token_f1_stays_in_every_direction(empty_database_url: str) -> None:
    url = empty_database_url
    upgrade(url, "0051")
    with connected(url) as connection:
        write_rows(connection, "0051")
        connection.execute("UPDATE evaluations SET token_f1 = 0.75")
        count = connection.execute("SELECT count(*) FROM evaluations").fetchone()
    upgrade(url)
    with connected(url) as connection:
        kept = connection.execute("SELECT metric, value, count(*) FROM measures GROUP BY 1, 2")
        assert count is not None
        assert kept.fetchall() == [("token_f1", 0.75, *count)]
        assert count[0] > 0
    downgrade(url, "0051")
    with connected(url) as connection:
        back = connection.execute("SELECT token_f1, count(*) FROM evaluations GROUP BY 1")
        assert back.fetchall() == [(0.75, *count)]


@pytest.mark.long("every migration path")
def test_words_stay_in_every_direction_and_records_where_they_can_be_described(
    empty_database_url: str,
) -> None:
    upgrade(empty_database_url, "0026")
    with connected(empty_database_url) as connection:
        write_rows(connection, "0026")
        write_words(connection)
    upgrade(empty_database_url)
    assert kinds(empty_database_url) == [("words", "words")]
    with connected(empty_database_url) as connection:
        write_records(connection)
    assert kinds(empty_database_url) == [("records", "records"), ("words", "words")]
    downgrade(empty_database_url, "0026")
    assert kinds(empty_database_url, "triples") == [("words", 2)]
    upgrade(empty_database_url)
    assert kinds(empty_database_url) == [("words", "words")]
    assert drift(empty_database_url) == []


@pytest.mark.parametrize(
    "changes",
    [
        *({column: None} for column in ("records", "copies", "fields", "field_values", "buckets")),
        *({"triples": 2}, {"characters": "ab"}, {"lengths": "{2}"}),
        *({"kind": "words"}, {"kind": "pictures"}),
    ],
    ids=str,
)
def test_a_dataset_has_the_columns_of_its_kind(
    database_url: str, changes: Mapping[str, object]
) -> None:
    with connected(database_url) as connection, pytest.raises(psycopg.errors.CheckViolation):
        write_records(connection, **changes)
