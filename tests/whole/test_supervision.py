"""Two stacks, one of which is killed: nothing of it stays.

It can be started again.
"""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.whole.conftest import PATIENCE, a_folder

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

OWN_SERVERS = {"ADAPTLAB_DATABASE_URL": None, "ADAPTLAB_BROKER_URL": None}
BASE = {
    "kind": "pretrain",
    "name": "kept",
    "family": {"name": "minigpt", "width": 8},
    "task": {"name": "sort_ascending", "length": 4, "alphabet": 4},
    "training": {"steps": 2},
    "evaluation": {"samples": 10},
}


@pytest.fixture
def folder() -> Iterator[Path]:
    with a_folder("beside") as name:
        yield name / "data"


def arguments_of(process: psutil.Process) -> list[str]:
    """Return no arguments for a process that has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def test_a_killed_supervisor_leaves_nothing_and_its_state_is_taken_up(folder: Path, stack: Stack):
    with Stack.start(folder, environment=OWN_SERVERS, timeout=PATIENCE) as second:
        assert second.url != stack.url
        with Client(second.url, second.token) as client:
            job = client.jobs.wait(client.jobs.submit(BASE).id, timeout=PATIENCE)
            assert job.succeeded, job.error
        token = second.token
        supervisor = psutil.Process(second.pid)
        family = supervisor.children(recursive=True)
        names = {part for process in family for part in arguments_of(process)}
        assert {"adaptlab_api", "adaptlab_worker.trainer"} <= names, "the trainer is among them"
        supervisor.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(family, timeout=60)
        assert not alive
    with Stack.start(folder, environment=OWN_SERVERS, timeout=PATIENCE) as again:
        assert again.token == token
        with Client(again.url, again.token) as client:
            assert client.jobs.get(job.id).succeeded
            assert client.base_models.get("kept").ready
    with Client(stack.url, stack.token) as beside:
        assert beside.health(), "the stack next door never noticed"
