"""What the database itself keeps in order, and what an upgrade keeps."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg
import pytest
from alembic.util.exc import CommandError
from psycopg import sql
from sqlalchemy import make_url
from tests.db.written_rows import TRAINING, job_id, write_records, write_rows

from adaptlab_db.errors import LAST_OF_0_1, OLDEST, TablesTooOld
from adaptlab_db.migrate import drift, upgrade
from adaptlab_db.tables import Table


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address) as connection:
        yield connection


@pytest.fixture
def written(database_url: str) -> str:
    """A database with jobs in every state."""
    with connected(database_url) as connection:
        write_rows(connection)
    return database_url


def at_revision(url: str, revision: str) -> None:
    with connected(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [revision])


def content(url: str) -> Mapping[str, object]:
    """All rows, by table."""
    with connected(url) as connection:
        return {
            name: connection.execute(
                sql.SQL("SELECT array_agg(t::text ORDER BY t::text) FROM {} AS t").format(
                    sql.Identifier(name)
                )
            ).fetchone()
            for name in ("alembic_version", *Table.metadata.tables)
        }


def test_the_last_revision_before_0_2_0_is_accepted_with_its_rows(written: str) -> None:
    before = content(written)
    with connected(written) as connection:
        connection.execute("ALTER TABLE datasets DROP COLUMN reading")  # since 0053
    at_revision(written, "0052")  # the id of that revision, in databases of earlier versions
    assert sum(rows != (None,) for rows in before.values()) >= 15
    upgrade(written)
    assert content(written) == before
    assert drift(written) == []


@pytest.mark.parametrize("revision", ["0001", "0025", "0051"])
def test_an_older_revision_is_refused_with_the_next_step(written: str, revision: str) -> None:
    at_revision(written, revision)
    before = content(written)
    next_step = f"at revision {revision}, before {OLDEST}, .* the commit {LAST_OF_0_1} first"
    with pytest.raises(TablesTooOld, match=next_step):
        upgrade(written)
    assert content(written) == before


@pytest.mark.parametrize("revision", ["9999", "a1b2c3d4e5f6"])
def test_an_unknown_revision_is_refused(written: str, revision: str) -> None:
    at_revision(written, revision)
    before = content(written)
    with pytest.raises(CommandError, match=f"Can't locate revision identified by '{revision}'"):
        upgrade(written)
    assert content(written) == before


def test_jobs_that_have_ended_are_guarded(written: str) -> None:
    with (
        connected(written) as connection,
        pytest.raises(psycopg.errors.CheckViolation, match="has ended as succeeded"),
    ):
        connection.execute("UPDATE jobs SET step = 1 WHERE id = %s", [job_id("succeeded")])


def test_numbers_of_specs_are_kept_once_each(written: str) -> None:
    numbers = "SELECT path, number FROM spec_numbers"
    with connected(written) as connection:
        before = set(connection.execute(numbers).fetchall())
        copy = """
            INSERT INTO jobs SELECT (jsonb_populate_record(jobs, jsonb_build_object(
                'id', gen_random_uuid(), 'resolved_spec', %s::jsonb))).*
            FROM jobs WHERE state = 'queued'"""
        spec = '{"training": {"steps": 77, "trials": [1]}, "a.b": 1, "deep": {"er": {"x": 0.5}}}'
        connection.execute(copy, [spec])
        connection.execute(copy, [spec])
        after = connection.execute(numbers).fetchall()
    assert ("training.steps", TRAINING["steps"]) in before
    assert len(after) == len(before) + 2
    assert {(path, float(number)) for path, number in set(after) - before} == {
        ("training.steps", 77.0),
        ("deep.er.x", 0.5),
    }


def test_attempts_are_counted_when_they_end(written: str) -> None:
    counted = "SELECT outcome, sum(attempts) FROM attempt_counts GROUP BY 1"
    end = "UPDATE attempts SET outcome = 'lost', ended_at = now() WHERE outcome IS NULL"
    with connected(written) as connection:
        assert connection.execute(counted).fetchall() == []
        ended = connection.execute(end).rowcount
    with connected(written) as connection:
        assert connection.execute(counted).fetchall() == [("lost", ended)]
        assert ended > 0


@pytest.mark.parametrize(
    "changes",
    [
        *({column: None} for column in ("records", "copies", "fields", "field_values", "buckets")),
        *({"triples": 2}, {"characters": "ab"}, {"lengths": "{2}"}),
        *({"kind": "words"}, {"kind": "pictures"}),
    ],
    ids=str,
)
def test_a_dataset_has_the_columns_of_its_kind(written: str, changes: Mapping[str, object]) -> None:
    with connected(written) as connection:
        write_records(connection)
    with connected(written) as connection, pytest.raises(psycopg.errors.CheckViolation):
        write_records(connection, **changes)
