"""Nothing is unpickled while hostile files and messages come in.

Python reports every look for what a pickle names to audit hooks. The hook is in every process of
the worker's: `sitecustomize` below is loaded by each of them when it starts.
"""

import base64
import json
import pickle  # noqa: TID251 - what is sent here must never be opened
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_pretrain_spec
from tests.worker.conftest import Processes, Watched

from adaptlab_services.settings import Settings
from adaptlab_worker.loop.app import doorbell_queue

HOOK = """
import os, sys

def hook(event, arguments):
    if event == "pickle.find_class":
        with open(os.environ["PYTHON_UNPICKLED"], "a") as note:
            note.write(f"{os.getpid()} {event} {arguments!r}\\n")

with open(os.environ["PYTHON_UNPICKLED"] + ".hooked", "a") as note:
    note.write(f"{os.getpid()}\\n")
sys.addaudithook(hook)
"""


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.place), "w")


@pytest.fixture
def hooked(tmp_path: Path) -> dict[str, str]:
    """An environment in which every Python notes what it unpickles.

    It writes to the file `unpickled`.
    """
    folder = tmp_path / "hook"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOOK)
    root = str(Path(__file__).parents[2])
    return {
        "PYTHONPATH": f"{folder}:{root}",
        "PYTHON_UNPICKLED": str(tmp_path / "unpickled"),
    }


def message_of(content: bytes, queue: str) -> str:
    """A Celery message whose body is a pickle, and says so."""
    envelope = {
        "body": base64.b64encode(content).decode(),
        "content-encoding": "binary",
        "content-type": "application/x-python-serialize",
        "headers": {"task": "adaptlab.doorbell", "id": "1"},
        "properties": {
            "delivery_tag": "1",
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": queue},
            "correlation_id": "1",
        },
    }
    return json.dumps(envelope)


@pytest.mark.slow
def test_nothing_is_unpickled_while_a_job_is_done(
    processes: Processes,
    sessions: sessionmaker[Session],
    watched: Watched,
    settings: Settings,
    hooked: dict[str, str],
    tmp_path: Path,
) -> None:
    evil = pickle.dumps(Evil(tmp_path / "owned"))
    with sessions.begin() as session:
        a_base_model(session, contents=[evil, evil])
        bad = a_job(session)
        good = a_job(session, a_pretrain_spec(name="sound"))
    with redis.Redis.from_url(settings.broker_url) as client:
        client.lpush(doorbell_queue("cpu"), message_of(evil, doorbell_queue("cpu")))
    processes.nursery = None  # a child of the nursery has begun before, without the hook
    processes.worker(None, **hooked, OMP_NUM_THREADS="1")
    assert watched.wait_for_state(good, "succeeded", "failed").state == "succeeded"
    watched.wait(bad, lambda job: job.attempt >= 1 and job.state != "running", "the bad job's end")
    assert "is not a whole safetensors file" in str(watched.job(bad).error)
    pids = set((tmp_path / "unpickled.hooked").read_text().split())
    assert len(pids) >= 2, "the worker and its trainer were listened to"
    assert not (tmp_path / "unpickled").exists(), (tmp_path / "unpickled").read_text()
    assert not (tmp_path / "owned").exists()


def test_whatever_is_unpickled_would_be_noted(hooked: dict[str, str], tmp_path: Path) -> None:
    source = f"import pickle; pickle.loads({pickle.dumps(Evil(tmp_path / 'owned'))!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", source], env=hooked, check=True)
    assert "pickle.find_class" in (tmp_path / "unpickled").read_text()
    assert (tmp_path / "owned").exists()
