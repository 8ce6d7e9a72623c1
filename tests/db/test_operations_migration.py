"""Counts of attempts and ids of requests, migrated up and down."""

import psycopg
import pytest
from sqlalchemy import make_url
from tests.db.rows_of_revisions import write_rows

from adaptlab_db.migrate import downgrade, upgrade

BEFORE, ITSELF = "0031", "0034"
ENDED = "SELECT outcome, coalesce(reason, ''), count(*) FROM attempts WHERE outcome IS NOT NULL"
COUNTED = "SELECT outcome, reason, sum(attempts) FROM attempt_counts GROUP BY 1, 2 ORDER BY 1, 2"
GIVEN = "5c8d574c-c66c-4b06-a4c7-7d4e25bf7ba1"


def connected(url: str) -> psycopg.Connection:
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(address)


def an_entry(connection: psycopg.Connection, request_id: str) -> None:
    row = "INSERT INTO audit_entries (action, status, request_id) VALUES ('x', 200, %s)"
    connection.execute(row, [request_id])


def ids(url: str) -> list[str]:
    with connected(url) as connection:
        rows = connection.execute("SELECT request_id::text FROM audit_entries ORDER BY id")
        return [value for (value,) in rows.fetchall()]


def test_attempts_that_ended_before_are_counted(empty_database_url: str) -> None:
    upgrade(empty_database_url, BEFORE)
    with connected(empty_database_url) as connection:
        write_rows(connection, BEFORE)
        ended = connection.execute(f"{ENDED} GROUP BY 1, 2 ORDER BY 1, 2").fetchall()
    assert ended
    upgrade(empty_database_url, ITSELF)
    with connected(empty_database_url) as connection:
        assert connection.execute(COUNTED).fetchall() == ended
        connection.execute(
            "UPDATE attempts SET outcome = 'lost', ended_at = now() WHERE outcome IS NULL"
        )
    with connected(empty_database_url) as connection:
        assert ("lost", "", 1) in connection.execute(COUNTED).fetchall()


def test_ids_of_requests_survive_both_directions(empty_database_url: str) -> None:
    upgrade(empty_database_url, BEFORE)
    with connected(empty_database_url) as connection:
        an_entry(connection, GIVEN)
    upgrade(empty_database_url, ITSELF)
    with connected(empty_database_url) as connection:
        an_entry(connection, "nightly-7")
    assert ids(empty_database_url) == [GIVEN, "nightly-7"]
    downgrade(empty_database_url, BEFORE)
    first, second = ids(empty_database_url)
    assert first == GIVEN
    upgrade(empty_database_url, ITSELF)
    assert ids(empty_database_url) == [first, second]


def test_the_audit_log_still_refuses_changes(empty_database_url: str) -> None:
    upgrade(empty_database_url, ITSELF)
    with connected(empty_database_url) as connection:
        an_entry(connection, "nightly-7")
    with connected(empty_database_url) as connection, pytest.raises(psycopg.Error):
        connection.execute("UPDATE audit_entries SET request_id = 'other'")
