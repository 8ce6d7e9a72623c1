"""Which job is taken next: by priority, then of the owner with the least running, then oldest.

All jobs of one queue, priority and owner make a lane. Only the first of a lane can be next, so it
is enough to look at the heads of all lanes, each of which one step in `ix_jobs_lanes` finds. How
many jobs wait does not matter: with 20,000 of them sorting them all took 41 ms, this takes 0.3.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Integer,
    ScalarSelect,
    Text,
    Uuid,
    bindparam,
    column,
    text,
)

# States stand in the text, not in parameters, so that a plan made for all parameters may use the
# index of the queued jobs alone.
_DUE = "state = 'queued' AND run_at <= clock_timestamp() AND cancel_requested_at IS NULL"
_OF_LANE = "queue = lane.queue AND priority = lane.priority AND owner_id = lane.owner_id"
_LANES = """
    lanes AS (
        SELECT asked.queue, first.priority, first.owner_id
        FROM asked CROSS JOIN LATERAL (
            SELECT priority, owner_id FROM jobs
            WHERE state = 'queued' AND queue = asked.queue
            ORDER BY priority, owner_id LIMIT 1
        ) first
        UNION ALL
        SELECT lanes.queue, next.priority, next.owner_id
        FROM lanes CROSS JOIN LATERAL (
            SELECT priority, owner_id FROM jobs
            WHERE state = 'queued' AND queue = lanes.queue
                AND (priority, owner_id) > (lanes.priority, lanes.owner_id)
            ORDER BY priority, owner_id LIMIT 1
        ) next
    )"""
_HEADS = f"""
    busy AS (
        SELECT owner_id, count(*) AS jobs FROM jobs WHERE state = 'running' GROUP BY owner_id
    ), heads AS MATERIALIZED (
        SELECT lane.queue, lane.priority, lane.owner_id
        FROM lanes lane LEFT JOIN busy USING (owner_id) CROSS JOIN LATERAL (
            SELECT created_at, id FROM jobs WHERE {_OF_LANE} AND {_DUE}
            ORDER BY created_at, id LIMIT 1
        ) head
        WHERE coalesce(busy.jobs, 0) < coalesce(:most_running, 2147483647)
        ORDER BY lane.priority DESC, coalesce(busy.jobs, 0), head.created_at, head.id
    )"""  # noqa: S608 - made of constants
# Lanes are looked into one after the other until one gives a job: what others are just taking is
# passed over.
_NEXT = f"""
    WITH RECURSIVE asked AS (SELECT unnest(:queues) AS queue), {_LANES}, {_HEADS}
    SELECT taken.id FROM heads lane CROSS JOIN LATERAL (
        SELECT id FROM jobs WHERE {_OF_LANE} AND {_DUE}
        ORDER BY created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) taken LIMIT 1"""  # noqa: S608 - made of constants
# No index has the project: of a lane it reads the jobs of others that come before the first.
_OF_PROJECT = " AND project_id = :project"
_THIS_ONE = " AND id = :job"
_NOT_PASSED_OVER = " AND id <> ALL(:passed_over)"


def next_job(
    queues: Sequence[str],
    most_running: int | None,
    project_id: int | None = None,
    passed_over: Sequence[UUID] = (),
    job_id: UUID | None = None,
) -> ScalarSelect[UUID]:
    """The id of the job to take next from some queues, locked; nothing where there is none.

    `most_running` is how many jobs of one owner may run at a time; None sets no limit. A job that
    somebody else has locked counts as taken, and the next of its lane is as good as it was. With
    `project_id` only jobs of that project are looked at, and with `job_id` that one alone; those of
    `passed_over` are left out.
    """
    parameters: list[BindParameter[Any]] = [  # of several types
        bindparam("queues", list(queues), type_=ARRAY(Text)),
        bindparam("most_running", most_running, type_=Integer),
    ]
    due = _DUE
    if project_id is not None:
        due += _OF_PROJECT
        parameters.append(bindparam("project", project_id, type_=Integer))
    if job_id is not None:
        due += _THIS_ONE
        parameters.append(bindparam("job", job_id, type_=Uuid[UUID]()))
    if passed_over:
        due += _NOT_PASSED_OVER
        parameters.append(bindparam("passed_over", list(passed_over), type_=ARRAY(Uuid[UUID]())))
    statement = text(_NEXT.replace(_DUE, due)).bindparams(*parameters)
    return statement.columns(column("id", Uuid[UUID]())).scalar_subquery()
