"""Failed runs: one attempt, and a trainer that stays."""

import errno

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec
from tests.worker.conftest import Control, Processes, Watched

from adaptlab.errors import BadCheckpoint, OutOfMemory
from adaptlab_db.tables import AttemptRow
from adaptlab_worker.trainer.run_errors import breaks_trainer, would_repeat


def test_bad_jobs_cost_one_attempt_and_no_trainer(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, control: Control
) -> None:
    seeds = [1, 13, 2] * 4
    with sessions.begin() as session:
        ids = [
            a_job(session, a_pretrain_spec(name=f"job-{place}", seeds=[seed]))
            for place, seed in enumerate(seeds)
        ]
    processes.worker("failing_by_seed", ADAPTLAB_POLL_SECONDS="60")
    for seed, job_id in zip(seeds, ids, strict=True):
        done = watched.wait_for_state(job_id, "succeeded", "failed")
        expected = ("failed", "system_error") if seed == 13 else ("succeeded", None)
        assert (done.state, done.reason) == expected
    with sessions() as session:
        attempts = session.scalar(select(func.count()).select_from(AttemptRow))
    assert attempts == len(seeds)
    assert len(control.trainers()) == 1


class AcceleratorError(RuntimeError):
    """As torch names the errors of a device."""


REPEATED = [
    IndexError("index 5 is out of bounds"),
    KeyError("lora"),
    TypeError("unsupported operand"),
    AssertionError(),
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"),
    RuntimeError("Some tensors share memory"),
    BadCheckpoint("not finite"),
    RecursionError("maximum recursion depth exceeded"),
]
NOT_REPEATED = [
    OSError(errno.EIO, "Input/output error"),
    ConnectionResetError("reset"),
    TimeoutError("no answer"),
    RuntimeError("can't start new thread"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    AcceleratorError("device-side assert"),
]


@pytest.mark.parametrize("error", REPEATED, ids=repr)
def test_what_the_code_would_raise_again_is_not_retried(error: Exception) -> None:
    assert would_repeat(error)
    assert not breaks_trainer(error)


@pytest.mark.parametrize("error", NOT_REPEATED, ids=repr)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert not would_repeat(error)


def test_errors_of_a_device_replace_the_trainer_and_others_do_not() -> None:
    assert [breaks_trainer(error) for error in NOT_REPEATED] == [False] * 4 + [True] * 2
    assert not breaks_trainer(OutOfMemory("too large"))
