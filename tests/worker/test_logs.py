"""Logs of workers and their trainers as JSON, with job and attempt."""

import json

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec
from tests.worker.conftest import Processes, Watched


@pytest.mark.parametrize("runner", ["complete", "broken"])
def test_lines_of_worker_and_trainer_name_job_and_attempt(
    processes: Processes, sessions: sessionmaker[Session], watched: Watched, runner: str
) -> None:
    with sessions.begin() as session:
        job = a_job(session, a_pretrain_spec())
    processes.worker(runner, ADAPTLAB_LOG_FORMAT="json")
    watched.wait_for_state(job, "succeeded", "failed")
    processes.end()
    lines = [json.loads(line) for line in processes.log.read_text().splitlines()]
    own = [line for line in lines if line.get("job_id") == str(job)]
    assert {line["attempt"] for line in own if line["logger"] == "adaptlab_worker.loop.slot"} >= {1}
    of_trainer = [line for line in own if line["logger"] == "trainer"]
    assert [line["attempt"] for line in of_trainer[:1]] == (["1"] if runner == "broken" else [])
    assert any(line["message"].startswith("worker ") for line in lines)
    content = processes.log.read_text()
    assert "al_secret" not in content
