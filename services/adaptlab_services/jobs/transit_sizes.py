"""Warnings about files that no worker of a queue could store."""

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from adaptlab.specs.resolved import Resolved
from adaptlab.specs.stored_files import saved_bytes, stored_bytes
from adaptlab_db.tables import Worker
from adaptlab_services.lifecycle.workers import is_live
from adaptlab_services.limits import sizes


def warnings(session: Session, jobs: Iterable[tuple[Resolved, str]]) -> tuple[str, ...]:
    """Return a warning per queue whose live workers all use the API.

    They cannot store a file that is larger than an upload may be. `jobs` are given with their
    queues; most take no query.
    """
    most = sizes.most_content(session)
    if most is None:
        return ()
    largest: dict[str, int] = {}
    for job, queue in jobs:
        largest[queue] = max(largest.get(queue, 0), _largest_file(job))
    too_large = {queue: size for queue, size in largest.items() if size > most}
    return tuple(
        f"All live workers of the queue {queue!r} use the API, which stores files of at most "
        f"{most:,} bytes. A job there has one of {too_large[queue]:,} bytes and would fail. Raise "
        "ADAPTLAB_MAX_UPLOAD_BYTES, or choose a queue of workers next to the database."
        for queue in sorted(too_large)
        if _is_served_by_the_api_alone(session, queue)
    )


def _largest_file(job: Resolved) -> int:
    """Return the bytes of a saved state or of one seed's checkpoint."""
    return max(saved_bytes(job), stored_bytes(job) // max(1, len(job.seeds)))


def _is_served_by_the_api_alone(session: Session, queue: str) -> bool:
    """Return True if a queue has live workers, all with a token."""
    with_token = func.bool_and(Worker.token_id.is_not(None))
    of_queue = Worker.queues.contains([queue]), is_live()
    return session.scalar(select(with_token).where(*of_queue)) is True
