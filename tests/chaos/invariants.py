"""Statements that are always true of the tables, each as an SQL query.

Written against the tables alone, and from the design's list of allowed changes: nothing of the
services is asked, so that a fault of theirs cannot hide itself.
"""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session
from tests.stand_ins import LOSS

GRACE_SECONDS = 6.0  # after the end of a lease, until which somebody must have taken the job back

ALLOWED = """
    VALUES ('waiting', 'queued'), ('waiting', 'cancelled'), ('waiting', 'failed'),
           ('queued', 'running'), ('queued', 'cancelled'), ('queued', 'failed'),
           ('queued', 'paused'),
           ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'),
           ('running', 'queued'), ('running', 'paused'),
           ('paused', 'queued'), ('paused', 'cancelled')
"""
# Events that say which state a job came into; the others tell of results and requests.
CHANGES = """
    SELECT job_id, sequence, type, attempt,
           lag(type) OVER (PARTITION BY job_id ORDER BY sequence) AS before
    FROM job_events
    WHERE type IN ('waiting', 'queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled')
"""
ENDS = "('succeeded', 'failed', 'cancelled')"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A sentence about all jobs, and the query for its violations.

    The query returns rows of a thing and a remark.
    """

    name: str
    sentence: str
    query: str


@dataclass(frozen=True, slots=True)
class Violation:
    """Something for which an invariant does not hold."""

    invariant: str
    subject: str
    remark: str


INVARIANTS = (
    Invariant(
        "one_end",
        "A job that has ended has exactly one event that says so, of its state; others have none.",
        f"""
        SELECT j.id, j.state || ' with ends ' || coalesce(string_agg(e.type, ','), 'none')
        FROM jobs j LEFT JOIN job_events e ON e.job_id = j.id AND e.type IN {ENDS}
        GROUP BY j.id, j.state
        HAVING array_remove(array_agg(e.type), NULL)
            <> CASE WHEN j.state IN {ENDS} THEN ARRAY[j.state] ELSE ARRAY[]::text[] END
        """,
    ),
    Invariant(
        "allowed_changes",
        "A job only goes from one state to another as the design allows.",
        f"""
        SELECT job_id, coalesce(before, 'nothing') || ' to ' || type FROM ({CHANGES}) c
        WHERE CASE WHEN before IS NULL THEN type NOT IN ('waiting', 'queued')
              ELSE (before, type) NOT IN ({ALLOWED}) END
        """,
    ),
    Invariant(
        "state_is_told",
        "The state of a job is the one that its last change came to.",
        f"""
        SELECT j.id, j.state || ', told ' || coalesce(last.type, 'nothing')
        FROM jobs j LEFT JOIN LATERAL (
            SELECT type FROM ({CHANGES}) c WHERE c.job_id = j.id ORDER BY sequence DESC LIMIT 1
        ) last ON true
        WHERE last.type IS DISTINCT FROM j.state
        """,
    ),
    Invariant(
        "nothing_after_the_end",
        "No event follows the one that ends a job.",
        f"""
        SELECT e.job_id, e.type || ' after ' || t.type
        FROM job_events t JOIN job_events e ON e.job_id = t.job_id AND e.sequence > t.sequence
        WHERE t.type IN {ENDS}
        """,
    ),
    Invariant(
        "no_gaps",
        "The events of a job are numbered from 1 without a gap, up to the job's own count.",
        """
        SELECT j.id, format('%s events from %s to %s, count %s', count(e.sequence),
                            min(e.sequence), max(e.sequence), j.event_sequence)
        FROM jobs j LEFT JOIN job_events e ON e.job_id = j.id
        GROUP BY j.id, j.event_sequence
        HAVING count(e.sequence) <> j.event_sequence
            OR coalesce(min(e.sequence), 1) <> 1
            OR coalesce(max(e.sequence), 0) <> j.event_sequence
        """,
    ),
    Invariant(
        "attempts_rise",
        "Each claim takes the next attempt number, and no event names one that is over.",
        """
        SELECT job_id, format('%s of attempt %s after attempt %s', type, attempt, furthest)
        FROM (
            SELECT job_id, type, attempt,
                   max(attempt) OVER (PARTITION BY job_id ORDER BY sequence
                                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS furthest
            FROM job_events WHERE attempt IS NOT NULL
        ) e
        WHERE CASE type WHEN 'running' THEN attempt <> coalesce(furthest, 0) + 1
              ELSE attempt < coalesce(furthest, 0) END
        UNION ALL
        SELECT j.id, format('attempt %s, rows %s', j.attempt, array_agg(a.attempt))
        FROM jobs j LEFT JOIN attempts a ON a.job_id = j.id
        GROUP BY j.id, j.attempt
        HAVING count(a.attempt) <> j.attempt OR coalesce(max(a.attempt), 0) <> j.attempt
        """,
    ),
    Invariant(
        "one_open_attempt",
        "A job that runs has one open attempt, its last; any other has none.",
        """
        SELECT j.id, format('%s at attempt %s, open %s', j.state, j.attempt,
                            coalesce(array_agg(a.attempt) FILTER (WHERE a.ended_at IS NULL), '{}'))
        FROM jobs j LEFT JOIN attempts a ON a.job_id = j.id
        GROUP BY j.id, j.state, j.attempt
        HAVING coalesce(array_agg(a.attempt) FILTER (WHERE a.job_id IS NOT NULL
                                                     AND a.ended_at IS NULL), '{}')
            <> CASE j.state WHEN 'running' THEN ARRAY[j.attempt] ELSE '{}' END
        """,
    ),
    Invariant(
        "one_success",
        "A job that succeeded did so in its last attempt and in no other.",
        """
        SELECT j.id, format('%s, succeeded in %s of %s', j.state,
                            array_agg(a.attempt) FILTER (WHERE a.outcome = 'succeeded'), j.attempt)
        FROM jobs j LEFT JOIN attempts a ON a.job_id = j.id
        GROUP BY j.id, j.state, j.attempt
        HAVING coalesce(array_agg(a.attempt) FILTER (WHERE a.outcome = 'succeeded'), '{}')
            <> CASE j.state WHEN 'succeeded' THEN ARRAY[j.attempt] ELSE '{}' END
        """,
    ),
    Invariant(
        "whole_results",
        "Of a job that succeeded, the last attempt has every step, score and weight exactly once.",
        f"""
        SELECT id, format('steps %s of %s, replicates %s, scored %s, weights %s of %s seeds',
                          steps, total_steps, replicates, scored, weights, seeds)
        FROM (
            SELECT j.id, j.total_steps, jsonb_array_length(j.resolved_spec -> 'seeds') AS seeds,
              (SELECT count(DISTINCT step) FROM metric_points m
               WHERE m.job_id = j.id AND m.attempt = j.attempt AND m.replicate = 0
                 AND m.name = '{LOSS}' AND m.step BETWEEN 1 AND j.total_steps) AS steps,
              (SELECT count(*) FROM replicates r
               WHERE r.job_id = j.id AND r.attempt = j.attempt) AS replicates,
              (SELECT count(*) FROM evaluations e JOIN item_outcomes o ON o.evaluation_id = e.id
               WHERE e.job_id = j.id AND e.attempt = j.attempt) AS scored,
              (SELECT count(*) FROM checkpoints c
               WHERE c.job_id = j.id AND c.attempt = j.attempt) AS weights
            FROM jobs j WHERE j.state = 'succeeded' AND j.kind = 'adapt'
        ) found
        WHERE steps <> total_steps OR replicates <> seeds OR weights <> seeds OR scored <> seeds
        """,
    ),
    Invariant(
        "cancel_is_heeded",
        "A job that a worker was asked to stop does not succeed.",
        """
        SELECT j.id, 'succeeded though cancelled before'
        FROM jobs j JOIN job_events e ON e.job_id = j.id AND e.type = 'cancel_requested'
        WHERE j.state = 'succeeded'
        """,
    ),
    Invariant(
        "bytes_match_names",
        "Every artifact in the tables is as long as it says and has the SHA-256 that names it.",
        """
        SELECT a.sha256, format('%s bytes of %s', coalesce(sum(length(c.content)), 0), a.size)
        FROM artifacts a LEFT JOIN artifact_chunks c ON c.sha256 = a.sha256
        WHERE a.store = 'postgres'
        GROUP BY a.sha256, a.size
        HAVING coalesce(sum(length(c.content)), 0) <> a.size
            OR encode(sha256(coalesce(string_agg(c.content, ''::bytea ORDER BY c.number), '')),
                      'hex') <> a.sha256
        """,
    ),
    Invariant(
        "leases_are_taken_back",
        f"No job runs with a lease that ended more than {GRACE_SECONDS:.0f} seconds ago.",
        f"""
        SELECT id, format('the lease ended %s ago', clock_timestamp() - lease_expires_at)
        FROM jobs
        WHERE state = 'running'
          AND lease_expires_at < clock_timestamp() - interval '{GRACE_SECONDS} s'
        """,
    ),
)


def violations(session: Session) -> tuple[Violation, ...]:
    """All violations now; the session reads one moment of the database."""
    session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    return tuple(
        Violation(invariant.name, str(subject), str(remark))
        for invariant in INVARIANTS
        for subject, remark in session.execute(text(invariant.query))
    )
