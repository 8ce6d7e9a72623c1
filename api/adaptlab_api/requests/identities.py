"""Ids of jobs in addresses: complete, or a unique part."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path
from starlette.concurrency import run_in_threadpool

from adaptlab_api.requests.dependencies import LooksDep, Units
from adaptlab_services import short_ids

LONGEST_ID = 64

ShortId = Annotated[
    str,
    Path(
        max_length=LONGEST_ID,
        description="The id of a job, or its first or last characters, at least 4, if they "
        "are unique.",
    ),
]


async def whole_id(text: str, opens: Units) -> UUID:
    """Return the id of the job; only a short one needs the database."""
    complete = short_ids.in_full(text)
    return complete if complete is not None else await run_in_threadpool(_looked_up, text, opens)


def _looked_up(text: str, opens: Units) -> UUID:
    with opens() as session:
        return short_ids.job_id(session, text)


async def job_identity(job_id: ShortId, opens: LooksDep) -> UUID:
    """Return the id of the job that the address names."""
    return await whole_id(job_id, opens)


JobId = Annotated[UUID, Depends(job_identity)]
