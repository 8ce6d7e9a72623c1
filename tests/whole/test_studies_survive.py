"""A study outlives its supervisor and a crash of everything."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import psutil
import pytest
from tests.whole.conftest import a_folder

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

pytestmark = pytest.mark.long("chaos at length")

OWN_SERVERS = {
    "ADAPTLAB_DATABASE_URL": None,
    "ADAPTLAB_BROKER_URL": None,
    "ADAPTLAB_LEASE_SECONDS": "6",
    "ADAPTLAB_HEARTBEAT_SECONDS": "1",
    "ADAPTLAB_REAP_SECONDS": "1",
    "ADAPTLAB_REAPER_ARM_SECONDS": "2",
    "ADAPTLAB_SAVE_SECONDS": "0.2",
}
TASK = {"name": "sort_ascending", "length": 4, "alphabet": 5}
TRAINING = {"steps": 300, "batch_size": 8}
LONGER = {"steps": 4000, "batch_size": 8}
"""Long enough to be seen on its way on a quick machine: a trainer tells its step once a second."""
BASE = {
    "kind": "pretrain",
    "name": "inline",
    "family": {"name": "minigpt", "width": 8},
    "task": TASK,
    "training": LONGER,
    "seeds": 2,
    "evaluation": {"samples": 100},
}
STUDY = {
    "name": "survivor",
    "base_models": [BASE],
    "tasks": [{**TASK, "name": "sort_descending"}],
    "methods": ["frozen", {"name": "full_finetuning", "training": LONGER}, "lora"],
    "budgets": [32, 64],
    "seeds": 2,
    "training": TRAINING,
    "tuning": {"trials": 2},
    "evaluation": {"samples": 100},
}


@pytest.fixture
def folder() -> Iterator[Path]:
    with a_folder("crash") as name:
        yield name / "data"


def kill_everything(stack: Stack) -> None:
    """SIGKILL for the supervisor and all of its processes."""
    supervisor = psutil.Process(stack.pid)
    family = [supervisor, *supervisor.children(recursive=True)]
    send(signal.SIGKILL, family)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive


def kill_the_supervisor(stack: Stack) -> None:
    """SIGKILL for the supervisor alone, which leaves nothing of its own."""
    supervisor = psutil.Process(stack.pid)
    family = supervisor.children(recursive=True)
    names = {part for process in family for part in arguments_of(process)}
    assert {"adaptlab_api", "adaptlab_worker.trainer.trainer"} <= names, "the trainer is among them"
    supervisor.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive


def arguments_of(process: psutil.Process) -> list[str]:
    """Return no arguments for a process that has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def send(number: signal.Signals, family: list[psutil.Process]) -> None:
    for process in family:
        with suppress(psutil.NoSuchProcess):  # what is tied to another dies with it
            process.send_signal(number)


def training(client: Client, kind: str) -> bool:
    """Whether a job of this kind is on its way."""
    running = client.jobs.list(filter=f"state = running AND kind = {kind}")
    return any(job.progress.step > 20 for job in running)


def caught(stack: Stack, client: Client, kind: str) -> bool:
    """Return True if a job of this kind is held by a stopped process.

    Else it may have ended, and no other begun, until everything is killed.
    """
    if not training(client, kind):
        return False
    worker = psutil.Process(stack.processes["worker"].pid)
    family = [worker, *worker.children(recursive=True)]
    send(signal.SIGSTOP, family)
    if training(client, kind):
        return True
    send(signal.SIGCONT, family)
    return False


def assert_nothing_lost_or_doubled(client: Client, study: str) -> None:
    """Every job succeeded once; every seed and trial was trained once."""
    jobs = list(client.studies.jobs(study))
    wanted = {"frozen": [1], "full_finetuning": [2], "lora": [2, 2], None: [1]}  # trials a seed
    assert Counter(job.method for job in jobs) == {m: len(t) for m, t in wanted.items()}
    for job in jobs:
        assert [event.type for event in client.jobs.events(job.id)].count("succeeded") == 1
        outcomes = Counter(attempt.outcome for attempt in client.jobs.attempts(job.id))
        assert outcomes["succeeded"] == 1
        trials = wanted[job.method][0]
        trained = Counter((r.seed, r.trial) for r in client.jobs.replicates(job.id))
        assert trained == dict.fromkeys(product(range(2), range(trials)), 1)
        scored = Counter((e.seed, e.task_name, e.attached) for e in client.jobs.evaluations(job.id))
        assert set(scored.values()) == {1}
        tasks = 1 if job.kind == "pretrain" else 4  # its own and the base's, with and without it
        assert len(scored) == 2 * tasks
        for curve in client.jobs.metrics(job.id):
            assert len(set(curve.steps)) == len(curve.steps), "no step stands there twice"
    crashed = [job for job in jobs if len(client.jobs.attempts(job.id)) > 1]
    assert {job.kind for job in crashed} == {"pretrain", "adapt"}, "both crashes hit a running job"
    (table,) = client.studies.comparison(study).tables
    assert not table.missing
    assert table.comparison is not None
    assert [len(cell.rows) for cell in table.comparison.cells] == [3, 3]


@pytest.mark.timeout(1200)
def test_a_study_survives_its_supervisor_and_a_crash_of_everything(
    folder: Path, stack: Stack, eventually: Callable[[Callable[[], bool]], None]
):
    with Stack.start(folder, environment=OWN_SERVERS) as first:
        assert first.url != stack.url
        token = first.token
        with Client(first.url, token) as client:
            study = client.studies.create(STUDY)
            eventually(lambda: caught(first, client, "pretrain"))
        kill_the_supervisor(first)
    with Stack.start(folder, environment=OWN_SERVERS) as second:
        assert second.token == token
        with Client(second.url, token) as client:
            eventually(lambda: caught(second, client, "adapt"))
            assert client.base_models.get("inline").ready
        kill_everything(second)
    with (
        Stack.start(folder, environment=OWN_SERVERS) as third,
        Client(third.url, token) as client,
    ):
        assert client.studies.wait(study.id).state == "succeeded"
        assert_nothing_lost_or_doubled(client, str(study.id))
    with Client(stack.url, stack.token) as beside:
        assert beside.health(), "the stack next door never noticed"
