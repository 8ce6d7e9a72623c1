"""Cached counts of a user's hours and bytes over all of their jobs.

A count takes longer the more jobs a user has. It is therefore kept for a minute, or for a hundred
times as long as it took, instead of being repeated for every request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Self

from sqlalchemy import text
from sqlalchemy.orm import Session

from adaptlab_db.visibility import ACROSS_PROJECTS

DAYS = 30
"""Days of which hours are counted, with today; they begin at midnight UTC."""
KEPT_SECONDS = 60
_SHARE_OF_TIME = 100


@dataclass(frozen=True, slots=True)
class Counted:
    """Seconds of attempts by queue and day of their end, and stored bytes."""

    counted_at: datetime
    seconds: Sequence[tuple[str, date, float]]
    job_bytes: int

    @classmethod
    def stored(cls, counted_at: datetime, hours: Sequence[Any], job_bytes: int) -> Self:
        """Return a count from its columns; `hours` lists queue, day and seconds."""
        seconds = tuple((str(q), date.fromisoformat(day), float(s)) for q, day, s in hours)
        return cls(counted_at, seconds, job_bytes)

    def queues(self) -> frozenset[str]:
        """Return the queues with attempts."""
        return frozenset(queue for queue, _, _ in self.seconds)

    def by_day(self, queue: str) -> Mapping[date, float]:
        """Return the hours in one queue by day."""
        return {day: seconds / 3600 for name, day, seconds in self.seconds if name == queue}


_SINCE = f"date_trunc('day', clock_timestamp(), 'UTC') - interval '{DAYS - 1} days'"
# A running attempt counts up to now. Jobs that ended before the period have no relevant attempt.
_COUNT = text(f"""
    WITH began AS MATERIALIZED (SELECT clock_timestamp() AS at), used AS (
        SELECT jobs.queue,
            (COALESCE(attempts.ended_at, began.at) AT TIME ZONE 'UTC')::date AS day,
            sum(EXTRACT(EPOCH FROM COALESCE(attempts.ended_at, began.at) - attempts.started_at))
                AS seconds
        FROM began CROSS JOIN jobs JOIN attempts ON attempts.job_id = jobs.id
        WHERE jobs.owner_id = :user_id
            AND (jobs.finished_at IS NULL OR jobs.finished_at >= {_SINCE})
            AND (attempts.ended_at IS NULL OR attempts.ended_at >= {_SINCE})
        GROUP BY 1, 2
    ), stored AS (
        SELECT artifacts.size FROM artifacts
        WHERE artifacts.state <> 'collected' AND artifacts.sha256 IN (
            SELECT artifact_sha256 FROM checkpoints JOIN jobs ON jobs.id = job_id
                WHERE owner_id = :user_id
            UNION SELECT artifact_sha256 FROM attention_maps JOIN jobs ON jobs.id = job_id
                WHERE owner_id = :user_id
            UNION SELECT artifact_sha256 FROM training_states JOIN jobs ON jobs.id = job_id
                WHERE owner_id = :user_id
            UNION SELECT sha256 FROM lease_artifacts JOIN jobs ON jobs.id = job_id
                WHERE owner_id = :user_id
        )
    ), found AS MATERIALIZED (
        SELECT
            COALESCE((SELECT jsonb_agg(jsonb_build_array(queue, day, seconds)) FROM used), '[]')
                AS hours,
            COALESCE((SELECT sum(size) FROM stored), 0) AS job_bytes
    )
    INSERT INTO usage_counts (user_id, counted_at, counted_until, hours, job_bytes)
    SELECT :user_id, began.at, clock_timestamp() + GREATEST(
        make_interval(secs => {KEPT_SECONDS}), {_SHARE_OF_TIME} * (clock_timestamp() - began.at)
    ), found.hours, found.job_bytes
    FROM found CROSS JOIN began
    ON CONFLICT (user_id) DO UPDATE SET
        counted_at = excluded.counted_at, counted_until = excluded.counted_until,
        hours = excluded.hours, job_bytes = excluded.job_bytes
    RETURNING counted_at, hours, job_bytes""")  # noqa: S608 - numbers of ours

_OTHERS = text("""
    SELECT
        COALESCE((SELECT sum(size_bytes) FROM uploads WHERE owner_id = :user_id), 0)
        + COALESCE((
            SELECT sum(artifacts.size) FROM datasets
            JOIN artifacts ON artifacts.sha256 = datasets.artifact_sha256
            WHERE datasets.owner_id = :user_id
        ), 0)
        + COALESCE((
            SELECT sum(artifacts.size) FROM artifacts WHERE artifacts.sha256 IN (
                SELECT files.artifact_sha256 FROM uploaded_folders folders
                JOIN uploaded_folder_files files
                    ON files.project_id = folders.project_id AND files.folder = folders.name
                WHERE folders.owner_id = :user_id
                EXCEPT SELECT artifact_sha256 FROM uploads WHERE owner_id = :user_id
            )
        ), 0)""")


_FIRST = text("SELECT pg_try_advisory_xact_lock(hashtextextended('adaptlab.usage', :user_id))")


def is_first_to_count(session: Session, user_id: int) -> bool:
    """Return True if no other request is counting this user's use.

    No other can then start until the unit of work ends.
    """
    return session.execute(_FIRST, {"user_id": user_id}).scalar_one()


def count(session: Session, user_id: int) -> Counted:
    """Count a user's use and cache it; shared bytes count once."""
    row = session.execute(_COUNT, {"user_id": user_id}, execution_options=ACROSS_PROJECTS).one()
    return Counted.stored(row.counted_at, row.hours, int(row.job_bytes))


def other_bytes(session: Session, user_id: int) -> int:
    """Return the bytes of a user's uploads, datasets and model folders now.

    Uploads count as announced.
    """
    total = session.execute(_OTHERS, {"user_id": user_id}, execution_options=ACROSS_PROJECTS)
    return int(total.scalar_one())
