"""A worker that is killed while it scores a prompt on another base model."""

import signal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.job_rows import attempts
from tests.making import a_pretrain_document, a_principal, an_adapt_document
from tests.worker.conftest import (
    LEFT_ALONE,
    Control,
    Processes,
    Watched,
    is_running,
    wait_until,
)

from adaptlab.specs.spec import AdaptSpec, PretrainSpec
from adaptlab_db.tables import EvaluationRow, ItemOutcome
from adaptlab_services.jobs import jobs

pytestmark = pytest.mark.long("chaos at length")

Sessions = sessionmaker[Session]
TASK = {"name": "sort_ascending", "length": 3, "alphabet": 4}
ENGINE = "held_elsewhere"


def submitted(sessions: Sessions) -> UUID:
    """Submit a search that is carried over, with seeds of two replicates."""
    document = an_adapt_document(
        base_model="own",
        task=TASK,
        method={"name": "pez", "length": 2},
        budget=None,
        training={"steps": 3, "batch_size": 4},
        evaluation={"samples": 64, "base_models": ["other"]},
        seeds=2,
    )
    spec = AdaptSpec.model_validate({k: v for k, v in document.items() if v is not None})
    with sessions.begin() as session:
        return jobs.create(session, a_principal(session), spec).job.id


def pretrained(sessions: Sessions, name: str, width: int) -> UUID:
    document = a_pretrain_document(
        name=name,
        family={"name": "minigpt", "layers": 1, "width": width},
        task=TASK,
        training={"steps": 60, "batch_size": 16, "learning_rate": 1e-2, "validations": 0},
        evaluation={"tasks": [TASK], "samples": 8},
        seeds=2,
    )
    with sessions.begin() as session:
        spec = PretrainSpec.model_validate(document)
        return jobs.create(session, a_principal(session), spec).job.id


def scores(sessions: Sessions, job_id: UUID) -> list[tuple[Any, ...]]:
    """Return every score of a job's latest attempt, with its outcomes."""
    row = EvaluationRow
    columns = (row.base_model, row.replicate, row.attached, row.correct, row.total)
    query = (
        select(row.attempt, *columns, ItemOutcome.bits)
        .join(ItemOutcome, ItemOutcome.evaluation_id == row.id)
        .where(row.job_id == job_id)
        .order_by(*columns)
    )
    with sessions.begin() as session:
        return [tuple(one) for one in session.execute(query)]


def test_another_worker_carries_the_prompt_over_with_the_same_outcome(
    processes: Processes, sessions: Sessions, watched: Watched, control: Control
) -> None:
    for name, width in (("own", 16), ("other", 12)):
        pretrained(sessions, name, width)
    job_id = submitted(sessions)
    first = processes.worker(ENGINE, **LEFT_ALONE)
    wait_until(lambda: (control.folder / "elsewhere").exists(), "a score elsewhere")
    trainer = int(control.read("elsewhere"))
    first.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_running(trainer), "the end of its trainer")
    control.allow()
    processes.worker(ENGINE)
    processes.start("beat")
    undisturbed = submitted(sessions)
    for one in (job_id, undisturbed):
        watched.wait_for_state(one, "succeeded", "failed")
    ended = [(a.outcome, a.reason) for a in attempts(sessions, job_id)]
    assert ended == [("lost", "worker_lost"), ("succeeded", None)]
    found, wanted = scores(sessions, job_id), scores(sessions, undisturbed)
    assert {attempt for attempt, *_ in found} == {2}
    assert [one[1:] for one in found] == [one[1:] for one in wanted]
    elsewhere = [one for one in found if one[1] == "other"]
    assert len(elsewhere) == 2 * 2, "two seeds, with and without the prompt"
    assert sum(one[4] for one in elsewhere) > 0, "zeros would be equal by themselves"
