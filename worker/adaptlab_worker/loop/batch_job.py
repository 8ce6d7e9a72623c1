"""The Slurm batch job that a worker is part of, and its end."""

import subprocess
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from adaptlab.runs.events import Allocation
from adaptlab_worker.errors import NoEndKnown

SQUEUE_SECONDS = 30.0
_DAY = timedelta(days=1)


def allocation_of(environment: Mapping[str, str]) -> Allocation | None:
    """Return the batch job described by environment variables, or None."""
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
    """Return the seconds until `end`; None for `auto` if Slurm names no end.

    Args:
        end: `auto` for the end of the batch job, seconds from now, a time of day such as 23:30
            (the next one), or an ISO 8601 date and time, in this machine's zone by default.
        environment: the variables that `auto` reads first, and the environment of `squeue`.
        now: the present, with its zone.

    Raises:
        NoEndKnown: `end` is none of these, or is past.
    """
    if end == "auto":
        ends_at = _end_of_batch_job(environment)
        return None if ends_at is None else ends_at - now.timestamp()
    seconds = _seconds(end, now)
    if seconds is None or seconds <= 0:
        raise NoEndKnown(end)
    return seconds


def _end_of_batch_job(environment: Mapping[str, str]) -> float | None:
    """Return the Unix time at which Slurm ends the batch job; None if unknown."""
    end_time = environment.get("SLURM_JOB_END_TIME", "")
    if end_time.isdecimal():
        return float(end_time)
    try:  # Slurm sets the variable from 23.02 on
        return datetime.fromisoformat(_end_by_squeue(environment)).timestamp()
    except ValueError:
        return None


def _end_by_squeue(environment: Mapping[str, str]) -> str:
    """Return the local time printed by `squeue`; empty if it cannot be run."""
    job, array = environment.get("SLURM_JOB_ID"), environment.get("SLURM_ARRAY_JOB_ID")
    if not job:
        return ""
    if array:  # the id of an array's last element is also the id of the whole array
        job = f"{array}_{environment.get('SLURM_ARRAY_TASK_ID', '')}"
    try:
        result = subprocess.run(
            ["squeue", "--noheader", "--jobs", job, "--format", "%e"],
            env={**environment, "SLURM_TIME_FORMAT": "standard"},
            check=False,
            capture_output=True,
            text=True,
            timeout=SQUEUE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip()


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
