"""Real worker processes on the test's servers, ended with the test."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psutil
import pytest
import redis
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.nursery import Born, Nursery
from tests.watching import until

from adaptlab_db.tables import Job, Worker
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.doorbell import messages
from adaptlab_services.settings import Settings
from adaptlab_worker.attempt.disk_space import Measure, Room
from adaptlab_worker.loop.app import doorbell_queue
from adaptlab_worker.loop.slot import Slot, SlotOptions
from adaptlab_worker.trainer.scratch import AssetCache, Scratch
from adaptlab_worker.trainer.trainer_process import TrainerOptions

ROOT = Path(__file__).parents[2]
HIERARCHIES = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
PATIENCE = 240.0  # seconds for what takes one or two on a quiet machine
LEFT_ALONE = {"ADAPTLAB_LEASE_SECONDS": "4", "ADAPTLAB_REAPER_ARM_SECONDS": "3600"}
"""Of a worker whose jobs go to another soon, and not before: it takes back nothing itself."""
OF_AN_ATTEMPT = ("heartbeat-", "recorder-")
"""How threads are called that end a moment after what they belong to."""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> float:
    """Wait for something to become true; returns how long it took."""
    return until(condition, what, seconds)


@dataclass
class Control:
    """The folder through which a test and the stand-ins of `runners.py` talk."""

    folder: Path

    def allow(self, name: str = "go") -> None:
        (self.folder / name).touch()

    def read(self, name: str) -> str:
        wait_until((self.folder / name).exists, f"the note {name}")
        # A note appears before its text does.
        wait_until(lambda: (self.folder / name).stat().st_size > 0, f"the text of {name}")
        return (self.folder / name).read_text()

    def trainers(self) -> list[int]:
        """The process ids of all trainers that took a run."""
        return [int(path.name.removeprefix("pid-")) for path in self.folder.glob("pid-*")]


Process = subprocess.Popen[bytes] | Born


@dataclass
class Processes:
    """Starts workers and beats by the module's own entry point.

    Those that are born in a nursery have loaded their modules before, which takes most of a start.
    """

    settings: Settings
    control: Control
    log: Path
    nursery: Nursery | None = None
    started: list[Process] = field(default_factory=list)

    def worker(self, runner: str | None = "complete", **environment: str) -> Process:
        named = ["--runner", f"tests.worker.runners:{runner}"] if runner else []
        return self.start("worker", *named, environment=environment)

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Process:
        argv, given = ["adaptlab_worker", *arguments], self._environment() | {**(environment or {})}
        if self.nursery is None:
            process = self._started(argv, given)
        else:
            before = f"import os\nos.chdir({str(self.log.parent)!r})"
            process = self.nursery.bear(argv, given, self.log, before)
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            if isinstance(process, Born):
                process.leave()

    def _started(self, argv: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *argv],
                cwd=self.log.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": str(ROOT),
            "RUNNER_CONTROL": str(self.control.folder),
            "ADAPTLAB_TRAINER_ENVIRONMENT": "RUNNER_CONTROL",
            "ADAPTLAB_TRAINER_WRITES": str(self.control.folder),
            "ADAPTLAB_TRAINER_USER": "same",  # pytest's folders are closed to everybody else
            "ADAPTLAB_DATABASE_URL": self.settings.database_url,
            "ADAPTLAB_BROKER_URL": self.settings.broker_url,
            "ADAPTLAB_DATA_DIR": str(self.settings.data_dir),
            # Longer than a machine stands still: a test that wants a lease to end says so.
            "ADAPTLAB_LEASE_SECONDS": "60",
            "ADAPTLAB_HEARTBEAT_SECONDS": "0.5",
            "ADAPTLAB_REAP_SECONDS": "0.5",
            "ADAPTLAB_REAPER_ARM_SECONDS": "1",
            "ADAPTLAB_POLL_SECONDS": "0.5",
            "ADAPTLAB_SWEEP_SECONDS": "1",
            "ADAPTLAB_TOKEN": "al_secret",
        }


@pytest.fixture
def group() -> Iterator[Path]:
    """A real control group of version 2, without processes."""
    usable = [path for path in HIERARCHIES if os.access(path / "cgroup.procs", os.W_OK)]
    if not usable:
        pytest.skip("no control group of version 2 can be made here")
    path = usable[0] / f"adaptlab-test-{os.getpid()}"
    path.mkdir()
    yield path
    for child in (*path.iterdir(), path):
        if child.is_dir():
            child.rmdir()


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return a_control(tmp_path)


def a_control(parent: Path) -> Control:
    """Make the folder of a control inside `parent`."""
    folder = parent / "control"
    folder.mkdir()
    return Control(folder)


@pytest.fixture(scope="session")
def worker_nursery() -> Iterator[Nursery]:
    """Starts workers without loading them again."""
    opened = Nursery(["adaptlab_worker.loop.processes", "adaptlab_worker.loop.pull_loop"])
    yield opened
    opened.close()


@pytest.fixture
def processes(
    settings: Settings,
    control: Control,
    tmp_path: Path,
    worker_nursery: Nursery,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Processes]:
    """Starts worker processes; what they logged is shown when the test fails."""
    with worker_processes(settings, control, tmp_path / "workers.log", worker_nursery) as running:
        yield running


@contextmanager
def worker_processes(
    settings: Settings, control: Control, log: Path, nursery: Nursery | None = None
) -> Generator[Processes]:
    """Start worker processes, which end with the block; print their log."""
    running = Processes(settings, control, log, nursery)
    try:
        yield running
    finally:
        running.end()
        print(log.read_text() if log.exists() else "")


@dataclass
class Watched:
    """Looks at one job's row."""

    sessions: sessionmaker[Session]

    def job(self, job_id: object) -> Job:
        with self.sessions.begin() as session:
            return session.scalars(select(Job).where(Job.id == job_id)).one()

    def wait(self, job_id: object, condition: Callable[[Job], bool], what: str) -> float:
        return wait_until(lambda: condition(self.job(job_id)), what)

    def wait_for_state(self, job_id: object, *states: str) -> Job:
        self.wait(job_id, lambda job: job.state in states, f"state {' or '.join(states)}")
        return self.job(job_id)

    def lease_is_over(self, job_id: object) -> bool:
        """Return True if the lease has ended by the database's clock."""
        with self.sessions.begin() as session:
            ended = Job.lease_expires_at < func.clock_timestamp()
            return session.scalars(select(ended).where(Job.id == job_id)).one()

    def heard_of(self) -> datetime:
        """Return the time of the only worker's last sign of life."""
        with self.sessions.begin() as session:
            return session.scalars(select(Worker.heartbeat_at)).one()

    def wait_for_step(self, job_id: object) -> None:
        self.wait(job_id, lambda job: job.state == "running" and job.step >= 1, "a first step")


@pytest.fixture
def watched(sessions: sessionmaker[Session]) -> Watched:
    return Watched(sessions)


def runner_options(monkeypatch: pytest.MonkeyPatch, control: Control, name: str) -> TrainerOptions:
    """Return options of a trainer that carries out a stand-in."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RUNNER_CONTROL", str(control.folder))
    return TrainerOptions(runner=f"tests.worker.runners:{name}", passed_on=("RUNNER_CONTROL",))


@contextmanager
def serving(
    ledger: DatabaseLedger,
    trainer: TrainerOptions,
    folder: Path,
    measure: Measure = shutil.disk_usage,
) -> Generator[None]:
    """A slot in the test's process, which works until the block ends."""
    options = SlotOptions(("cpu",), 0.2, 30, 0.05, trainer=trainer)
    scratch, draining = Scratch(folder / "scratch"), threading.Event()
    worker = ledger.register_worker("laptop", 4711, ("cpu",))
    cache, room = AssetCache(folder / "weights"), Room(folder / "scratch", measure=measure)
    slot = Slot(
        "slot", ledger, lambda: worker, lambda _: None, options, scratch, cache, room, draining
    )
    slot.start()
    try:
        yield
    finally:
        draining.set()
        slot.ring()
        assert slot.join(PATIENCE)
        scratch.close()
        wait_for_threads()


def wait_for_threads() -> None:
    """Wait until no thread of an attempt uses the database any more."""

    def are_gone() -> bool:
        return not any(one.name.startswith(OF_AN_ATTEMPT) for one in threading.enumerate())

    wait_until(are_gone, "the end of the threads of an attempt")


def ring_once(settings: Settings, queue: str = "cpu") -> None:
    """Send one doorbell, without the time limit by which it could be lost."""
    with redis.Redis.from_url(settings.broker_url) as client:
        client.lpush(doorbell_queue(queue), *messages(queue, 1))


def is_running(pid: int) -> bool:
    """Return True if a process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_worker(sessions: sessionmaker[Session]) -> None:
    """Wait until a worker is warm and has found nothing."""

    def is_there() -> bool:
        with sessions.begin() as session:
            is_later = Worker.heartbeat_at > Worker.started_at
            has_looked = Worker.unschedulable.is_(None) & is_later
            return session.scalar(select(func.count()).where(has_looked)) == 1

    wait_until(is_there, "a worker")
