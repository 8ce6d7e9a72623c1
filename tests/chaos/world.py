"""One run's API, beat and workers on a database, and their faults."""

import os
import signal
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
import redis
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker
from tests.chaos.histories import a_base_with_history
from tests.chaos.killable import KillableServers, is_alive
from tests.chaos.runners import FOLDER, SIZE
from tests.chaos.switches import REFUSED
from tests.databases import Databases
from tests.making import a_token
from tests.nursery import ROOT, Nursery

from adaptlab_db.migrate import upgrade
from adaptlab_db.session import close, session_factory
from adaptlab_stack.ports import LOOPBACK, HeldPort

LEASE_SECONDS = 2.0
RUNNER = "tests.chaos.runners:quick"
PRELOADED = ("tests.chaos.switches", "adaptlab_api.server", "adaptlab_worker.loop.processes")
SETTINGS = {
    "ADAPTLAB_LEASE_SECONDS": str(LEASE_SECONDS),
    "ADAPTLAB_HEARTBEAT_SECONDS": "0.4",
    "ADAPTLAB_REAP_SECONDS": "0.4",
    "ADAPTLAB_REAPER_ARM_SECONDS": "0.8",
    "ADAPTLAB_POLL_SECONDS": "0.5",
    "ADAPTLAB_SAVE_SECONDS": "0.2",
}


@dataclass
class Lab:
    """The servers, the nursery and a migrated database, for all runs."""

    servers: KillableServers
    nursery: Nursery
    template: str


@contextmanager
def lab(servers: KillableServers) -> Generator[Lab]:
    """Make what all runs share."""
    with Databases(servers.database_url) as databases, databases.copy_of("template0") as url:
        upgrade(url)
        nursery = Nursery(PRELOADED)
        try:
            yield Lab(servers, nursery, url.rpartition("/")[2])
        finally:
            nursery.close()


@dataclass(frozen=True)
class Making:
    """How the processes of a run are made."""

    workers: int = 3
    switches: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    statements: tuple[str, ...] = ()  # SQL, before the first job
    weights: int = 1000  # bytes


class World:
    """The processes of one run; `tend` restarts those that died."""

    def __init__(
        self, lab: Lab, making: Making, database_url: str, broker_url: str, folder: Path
    ) -> None:
        self.lab = lab
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        self.held = HeldPort()
        self.url = f"http://{LOOPBACK}:{self.held.number}"
        self.broker_url = broker_url
        self.sessions: sessionmaker[Session] = session_factory(database_url)
        self.pids: dict[str, int] = {}
        self._births: dict[str, list[float]] = {}
        self.frozen: set[str] = set()
        self.weights = making.weights
        self._making = making
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("ADAPTLAB_")
        } | {
            "PYTHONPATH": str(ROOT),
            FOLDER: str(folder),
            SIZE: str(making.weights),
            "ADAPTLAB_DATABASE_URL": database_url,
            "ADAPTLAB_BROKER_URL": broker_url,
            "ADAPTLAB_DATA_DIR": str(folder / "data"),  # closed to trainers, unlike their notes
            "ADAPTLAB_TRAINER_WRITES": str(folder),
            "ADAPTLAB_TRAINER_ENVIRONMENT": f"{FOLDER},{SIZE}",
            "ADAPTLAB_TRAINER_USER": "same",  # pytest's folders are closed to everybody else
            **SETTINGS,
            **making.settings,
        }
        self.token = self._prepare()

    def _prepare(self) -> str:
        with self.sessions.begin() as session:
            a_base_with_history(session)
            for statement in self._making.statements:
                session.execute(text(statement))
            return a_token(session)

    @property
    def workers(self) -> list[str]:
        """The names of the workers that live now."""
        return [name for name in self.pids if name.startswith("worker")]

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def log(self) -> Path:
        return self.folder / "processes.log"

    @property
    def refused(self) -> int:
        """How many writes were refused so far, because their attempt was over."""
        note = self.folder / REFUSED
        return note.stat().st_size if note.exists() else 0

    def tend(self) -> None:
        """Start what is not there."""
        named = [f"worker-{number}" for number in range(self._making.workers)]
        for name in ["api", "beat", *named]:
            if name not in self.pids or not is_alive(self.pids[name]):
                self.frozen.discard(name)
                self._note_birth(name)
                argv = self._argv(name)
                switches = ("hurry", "believe", "note_refusals", *self._making.switches)
                before = f"from tests.chaos.switches import use\nuse({switches!r})"
                born = self.lab.nursery.bear(argv, self._environment, self.log, before)
                self.pids[name] = born.pid
                born.leave()

    def _note_birth(self, name: str) -> None:
        """Something that dies as soon as it is born is a fault of the test."""
        now = time.monotonic()
        recent = [moment for moment in self._births.get(name, []) if moment > now - 5]
        assert len(recent) < 30, f"{name} does not live:\n{self.log.read_text()[-3000:]}"
        self._births[name] = [*recent, now]

    def _argv(self, name: str) -> Sequence[str]:
        if name == "api":
            return ["adaptlab_api", "--host", LOOPBACK, "--port", str(self.held.number)]
        if name == "beat":
            return ["adaptlab_worker", "beat"]
        return ["adaptlab_worker", "worker", "--runner", RUNNER]

    def is_served(self) -> bool:
        """Whether the API answers."""
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).is_success
        except httpx.TransportError:
            return False

    def kill(self, name: str) -> None:
        """kill -9."""
        self._signal(name, signal.SIGKILL)

    def freeze(self, name: str) -> None:
        self.frozen.add(name)
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self.frozen.discard(name)
        self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pids[name], number)

    def trainer_of(self, name: str) -> psutil.Process | None:
        """The trainer below a worker."""
        try:
            children = psutil.Process(self.pids[name]).children()
        except psutil.NoSuchProcess:
            return None
        return children[-1] if children else None

    def busy(self) -> dict[str, tuple[UUID, int]]:
        """The workers that hold a job now, with its id and attempt."""
        rows = self.ask(
            "SELECT w.process_id, j.id, j.attempt FROM jobs j JOIN workers w ON w.id = j.worker_id "
            "WHERE j.state = 'running'"
        )
        by_pid = {pid: (job, attempt) for pid, job, attempt in rows}
        return {name: by_pid[pid] for name, pid in self.pids.items() if pid in by_pid}

    def ask(self, query: str, **parameters: object) -> list[Any]:
        """Rows; none while the database is away."""
        try:
            with self.sessions() as session:
                return [tuple(row) for row in session.execute(text(query), parameters)]
        except SQLAlchemyError:
            return []

    def cancel(self, job_id: UUID) -> bool:
        """Ask the API to cancel a job; whether it said yes."""
        try:
            url = f"{self.url}/v1/jobs/{job_id}/cancel"
            answer = httpx.post(url, headers=self.headers, timeout=20)
        except httpx.TransportError:
            return False
        return answer.is_success

    def flush_broker(self) -> None:
        with redis.Redis.from_url(self.broker_url) as client:  # pyright: ignore[reportUnknownMemberType]
            client.flushall()  # pyright: ignore[reportUnknownMemberType]

    def heal(self) -> None:
        """Nothing is broken any more; what is dead is started by `tend`."""
        for name in list(self.frozen):
            self.thaw(name)
        for server in (self.lab.servers.postgres, self.lab.servers.valkey):
            if server.process is None:
                server.start()

    def end(self) -> None:
        """Kill everything, workers first, so that none of them starts anything."""
        trainers = [self.trainer_of(name) for name in self.workers]
        for name in reversed(list(self.pids)):
            self.kill(name)
        gone = [process for process in trainers if process is not None]
        psutil.wait_procs(gone, timeout=10)
        close(self.sessions)


@contextmanager
def world(lab: Lab, making: Making, folder: Path) -> Generator[World]:
    """A new world, gone at the end."""
    folder.mkdir(parents=True)
    with Databases(lab.servers.database_url) as databases, databases.copy_of(lab.template) as url:
        made = World(lab, making, url, lab.servers.broker_url, folder)
        try:
            made.flush_broker()
            made.tend()
            yield made
        finally:
            made.heal()
            made.end()
