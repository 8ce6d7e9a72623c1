"""A worker with the real engine fetches the words that a job's tasks ask."""

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_pretrain_document, a_principal
from tests.worker.conftest import Processes, wait_until

from adaptlab.plugins.dataset import Triple
from adaptlab.specs.spec import PretrainSpec
from adaptlab_db.tables import EvaluationRow, Job
from adaptlab_services.jobs import jobs
from adaptlab_services.models import datasets
from adaptlab_services.models.datasets import NewDataset

WORDS = (
    Triple("ant", "Ameise", "hormiga"),
    Triple("cat", "Katze", "gato"),
    Triple("dog", "Hund", "perro"),
)


@pytest.mark.long("long trainings")
def test_uploaded_words_are_learned(sessions: sessionmaker[Session], processes: Processes) -> None:
    task = {"name": "word_translation", "dataset": "animals"}
    document = a_pretrain_document(
        family={"name": "minigpt", "width": 48},
        task=task,
        training={"steps": 150, "batch_size": 12, "learning_rate": 5e-3, "validations": 0},
        evaluation={"tasks": [task, {**task, "target": "spanish"}], "samples": 3},
        seeds=1,
    )
    with sessions.begin() as session:
        who = a_principal(session)
        datasets.upload(session, who, NewDataset(name="animals", triples=WORDS))
        made = jobs.create(session, who, PretrainSpec.model_validate(document))
    processes.worker(None)

    def ended() -> bool:
        with sessions.begin() as session:
            return session.get_one(Job, made.job.id).finished_at is not None

    wait_until(ended, "the end of the job")
    with sessions.begin() as session:
        job = session.get_one(Job, made.job.id)
        assert job.state == "succeeded", job.error
        found = {
            row.task["target"]: (row.correct, row.total, row.task["dataset"]["name"])
            for row in session.scalars(select(EvaluationRow).where(EvaluationRow.job_id == job.id))
        }
    assert found == {"german": (3, 3, "animals"), "spanish": (0, 3, "animals")}
