"""The end of a worker's shift in a batch job, by a clock of the test."""

import signal
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from adaptlab_worker.errors import NoEndKnown
from adaptlab_worker.loop.batch_job import allocation_of, seconds_until
from adaptlab_worker.loop.pull_loop import AGAIN_SECONDS, PullOptions, Signals, limits_of
from adaptlab_worker.loop.work_limits import ENDLESS, Shift, ShiftLimits


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def look(shift: Shift) -> float:
    since = shift.begin_look()
    assert since is not None
    return since


def test_a_shift_without_limits_never_ends(clock: Clock) -> None:
    shift = Shift(ENDLESS, clock)
    for _ in range(5):
        shift.false_start()
        shift.found_nothing(look(shift))
        clock.now += 1e6
    shift.out_of_reach(look(shift))
    clock.now += 1e6
    assert not shift.is_over()
    assert shift.seconds_left() is None


def test_a_draining_shift_ends_with_the_first_look_in_vain(clock: Clock) -> None:
    shift = Shift(ShiftLimits(idle_seconds=0), clock)
    assert not shift.is_over(), "it has not looked yet"
    shift.found_nothing(look(shift))
    assert shift.is_over()


def test_a_shift_waits_for_work_as_long_as_it_was_told(clock: Clock) -> None:
    shift = Shift(ShiftLimits(idle_seconds=60), clock)
    shift.found_nothing(look(shift))
    clock.now += 59
    shift.found_nothing(look(shift))
    assert not shift.is_over()
    look(shift)
    shift.claimed()
    shift.job_ended("succeeded")
    clock.now += 59
    shift.found_nothing(look(shift))
    clock.now += 59
    assert not shift.is_over(), "counted again after the job"
    clock.now += 1
    assert shift.is_over()


def test_a_look_that_began_before_a_job_ended_does_not_count(clock: Clock) -> None:
    """The end of a job creates work, which an earlier look may have missed."""
    shift = Shift(ShiftLimits(idle_seconds=0), clock)
    look(shift)
    shift.claimed()
    other = look(shift)
    clock.now += 1
    shift.job_ended("succeeded")
    shift.found_nothing(other)
    assert not shift.is_over()
    shift.found_nothing(look(shift))
    assert shift.is_over()


def test_no_more_jobs_are_claimed_than_were_asked_for(clock: Clock) -> None:
    shift = Shift(ShiftLimits(most_jobs=2), clock)
    look(shift)
    shift.claimed()
    first = look(shift)
    assert shift.begin_look() is None, "the look under way may give the second"
    shift.found_nothing(first)
    look(shift)
    shift.claimed()
    assert shift.begin_look() is None
    shift.job_ended("succeeded")
    assert not shift.is_over(), "the other still runs"
    shift.job_ended("failed")
    assert shift.is_over()
    assert shift.jobs == 2


def test_nothing_is_claimed_when_the_time_is_over(clock: Clock) -> None:
    shift = Shift(ShiftLimits(until=160.0), clock)
    assert shift.seconds_left() == 60
    clock.now = 160.0
    assert shift.begin_look() is None
    assert shift.is_over()
    assert shift.seconds_left() == 0


def test_a_shift_ends_where_nobody_answers_or_trainers_do_not_start(clock: Clock) -> None:
    shift = Shift(ShiftLimits(idle_seconds=0, reach_seconds=300), clock)
    shift.out_of_reach(look(shift))
    clock.now += 299
    assert not shift.is_over()
    clock.now += 1
    assert shift.is_over()
    assert shift.is_cut_off
    sick = Shift(ShiftLimits(idle_seconds=0), clock)
    for _ in range(3):
        assert not sick.is_over()
        sick.false_start()
    assert sick.is_over()
    assert sick.is_sick


NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("end", "seconds"),
    [
        ("3600", 3600.0),
        ("0.5", 0.5),
        ("12:30", 1800.0),
        ("11:00", 23 * 3600.0),
        ("12:00:10", 10.0),
        ("2027-03-02T12:00", 86400.0),
        ("2027-03-01T13:30+01:00", 1800.0),
    ],
)
def test_the_end_of_a_shift_is_read(end: str, seconds: float) -> None:
    assert seconds_until(end, {}, NOON) == seconds


def test_a_time_without_a_zone_is_of_this_machines() -> None:
    here = NOON.astimezone(timezone(timedelta(hours=2)))
    assert seconds_until("15:00", {}, here) == 3600


@pytest.mark.parametrize("end", ["soon", "", "25:00", "0", "-5", "2020-01-01T00:00+00:00"])
def test_what_is_no_time_to_come_is_refused(end: str) -> None:
    with pytest.raises(NoEndKnown, match="--until"):
        seconds_until(end, {}, NOON)


def test_the_end_of_a_batch_job_is_taken_from_slurm() -> None:
    ends = {"SLURM_JOB_END_TIME": str(int(NOON.timestamp()) + 7200)}
    assert seconds_until("auto", ends, NOON) == 7200
    assert seconds_until("auto", {}, NOON) is None
    assert limits_of(PullOptions(until="auto"), {}, NOON).until is None
    limited = limits_of(PullOptions(until="auto", save_seconds=20), ends, NOON)
    assert limited.until is not None


@pytest.mark.parametrize(
    ("variables", "job"),
    [
        ({}, "4711"),
        ({"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "9"}, "4711_9"),
    ],
)
def test_where_slurm_sets_no_end_squeue_is_asked(
    variables: dict[str, str], job: str, tmp_path: Path
) -> None:
    """Slurm 22.05 does not set SLURM_JOB_END_TIME."""
    local = (NOON + timedelta(hours=2)).astimezone().replace(tzinfo=None)
    squeue = tmp_path / "squeue"
    squeue.write_text(
        f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $*" > {tmp_path}/asked\necho {local.isoformat()}\n'
    )
    squeue.chmod(0o755)
    environment = {"PATH": str(tmp_path), "SLURM_JOB_ID": "4711", **variables}
    assert seconds_until("auto", environment, NOON) == 7200
    asked = (tmp_path / "asked").read_text()
    assert asked == f"standard --noheader --jobs {job} --format %e\n"
    squeue.write_text("#!/bin/sh\necho N/A\n")
    assert seconds_until("auto", environment, NOON) is None
    squeue.unlink()
    assert seconds_until("auto", environment, NOON) is None


def test_signals_that_come_together_are_one(clock: Clock) -> None:
    """`scancel` reaches the worker and the script, which passes it on."""
    signals = Signals(clock)
    assert not signals.has_come
    for seconds in (0, 1, AGAIN_SECONDS - 2):
        clock.now += seconds
        signals.note(signal.SIGTERM)
        assert (signals.has_come, signals.is_insistent) == (True, False)
    clock.now += 1
    signals.note(signal.SIGUSR1)
    assert (signals.is_insistent, signals.last) == (True, signal.SIGUSR1)


def test_one_job_is_a_shift_of_one() -> None:
    limits = limits_of(PullOptions(once=True), {}, NOON)
    assert (limits.most_jobs, limits.idle_seconds) == (1, 0)
    assert limits_of(PullOptions(), {}, NOON) == ENDLESS


def test_a_batch_job_is_known_by_what_slurm_tells() -> None:
    assert allocation_of({}) is None
    told = {
        "SLURM_JOB_ID": "4713",
        "SLURM_ARRAY_JOB_ID": "4711",
        "SLURM_ARRAY_TASK_ID": "2",
        "SLURM_RESTART_COUNT": "1",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_NODELIST": "node[1-2]",
    }
    found = allocation_of(told)
    assert found is not None
    assert found.model_dump(exclude_none=True) == {
        "scheduler": "slurm",
        "job_id": "4713",
        "array_job_id": "4711",
        "array_task_id": "2",
        "restart_count": 1,
        "partition": "gpu",
        "nodes": "node[1-2]",
    }
