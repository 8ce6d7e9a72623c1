"""The batch job of Slurm that a worker is part of: what it is, and when it ends."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from adaptlab.results import Allocation
from adaptlab_worker.errors import NoEndKnown

_DAY = timedelta(days=1)


def allocation_of(environment: Mapping[str, str]) -> Allocation | None:
    """The batch job that the environment variables tell of; None outside of one."""
    job_id = environment.get("SLURM_JOB_ID")
    if not job_id:
        return None
    restarts = environment.get("SLURM_RESTART_COUNT", "")
    return Allocation(
        scheduler="slurm",
        job_id=job_id,
        array_job_id=environment.get("SLURM_ARRAY_JOB_ID"),
        array_task_id=environment.get("SLURM_ARRAY_TASK_ID"),
        restart_count=int(restarts) if restarts.isdecimal() else 0,
        cluster=environment.get("SLURM_CLUSTER_NAME"),
        partition=environment.get("SLURM_JOB_PARTITION"),
        nodes=environment.get("SLURM_JOB_NODELIST"),
    )


def seconds_until(end: str, environment: Mapping[str, str], now: datetime) -> float | None:
    """How long it is until `end`; None for `auto` where the environment tells no end.

    Args:
        end: `auto` for the end of the batch job, seconds from now, a time of day such as 23:30
            (the next one), or a date and time as in ISO 8601, of this machine's zone unless it
            names one.
        environment: where `auto` looks.
        now: the present, with its zone.

    Raises:
        NoEndKnown: `end` is none of these, or is over.
    """
    if end == "auto":
        told = environment.get("SLURM_JOB_END_TIME", "")
        return float(told) - now.timestamp() if told.isdecimal() else None
    seconds = _seconds(end, now)
    if seconds is None or seconds <= 0:
        raise NoEndKnown(end)
    return seconds


def _seconds(end: str, now: datetime) -> float | None:
    if end.replace(".", "", 1).isdecimal():
        return float(end)
    try:
        if len(end) <= len("23:30:00"):
            clock = time.strptime(end, "%H:%M" if end.count(":") == 1 else "%H:%M:%S")
            at = now.replace(
                hour=clock.tm_hour, minute=clock.tm_min, second=clock.tm_sec, microsecond=0
            )
            return (at - now if at > now else at + _DAY - now).total_seconds()
        at = datetime.fromisoformat(end)
        return ((at if at.tzinfo else at.replace(tzinfo=now.tzinfo)) - now).total_seconds()
    except ValueError:
        return None
