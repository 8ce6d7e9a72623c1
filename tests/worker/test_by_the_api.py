"""Workers that know only a server's address and a token."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.serving import Running, a_server
from tests.folders import a_model_folder
from tests.job_rows import AGO, change, outcomes
from tests.ledgers import a_worker_token
from tests.making import a_job, a_pretrain_spec, a_token
from tests.worker.conftest import PATIENCE, Watched, wait_until

from adaptlab_client import Client
from adaptlab_client.transport.credentials import file_of_job, keep_of_job
from adaptlab_db.tables import (
    AttentionMapRow,
    CheckpointRow,
    EvaluationRow,
    MetricPointRow,
    TrainingStateRow,
)
from adaptlab_services.errors import LedgerRefused
from adaptlab_services.leases.reaping import reap
from adaptlab_services.settings import Settings
from adaptlab_worker.ledger.ledger_access import open_door

Sessions = sessionmaker[Session]
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "VIRTUAL_ENV")
CAPTURE = {"attention": {"samples": 2}}
ADAPT = {
    "kind": "adapt",
    "base_model": "tiny",
    "task": {"name": "sort_descending", "length": 3, "alphabet": 5},
    "method": {"name": "soft_prompt", "length": 2},
    "training": {"steps": 4000, "batch_size": 4},
    "tuning": {"trials": 1},
    "seeds": 1,
    "evaluation": {"samples": 20},
    "capture": CAPTURE,
}


@pytest.fixture
def server(settings: Settings, sessions: Sessions, tmp_path: Path) -> Iterator[Running]:
    """The API, as it is started in production."""
    with sessions.begin() as session:
        token = a_token(session)
    with a_server(settings, token, tmp_path / "server.log") as running:
        yield running


class Cluster:
    """A place from which only the API is reached."""

    def __init__(self, url: str, token: str, folder: Path) -> None:
        self._options = ("--server", url)
        self._token = token
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self._folder.glob("worker-*.log")))

    def worker(self, *options: str, token_file: Path | None = None) -> "subprocess.Popen[bytes]":
        number = len(self._started)
        token = {"ADAPTLAB_TOKEN": self._token}
        if token_file is not None:
            token = {"ADAPTLAB_TOKEN_FILE": str(token_file)}
        with (self._folder / f"worker-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "adaptlab_worker", "worker", *self._options, *options],
                cwd=self._folder,
                env=self._environment(number) | token,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _environment(self, number: int) -> dict[str, str]:
        return {name: os.environ[name] for name in KEPT if name in os.environ} | {
            "ADAPTLAB_DATA_DIR": str(self._folder / f"node {number}"),
            "ADAPTLAB_TRAINER_USER": "same",  # pytest's folders are closed to everybody else
            "ADAPTLAB_SAVE_SECONDS": "0.2",
            "ADAPTLAB_HEARTBEAT_SECONDS": "0.5",
        }


@pytest.fixture
def cluster(
    server: Running,
    sessions: Sessions,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Cluster]:
    """Workers by the API; what they logged is shown when the test fails."""
    running = Cluster(server.url, a_worker_token(sessions), tmp_path)
    try:
        yield running
    finally:
        running.end()
        print(running.log)


def submit(sessions: Sessions, steps: int, **resources: object) -> UUID:
    spec = a_pretrain_spec(
        name=f"of-{steps}-steps",
        training={"steps": steps, "batch_size": 4},
        seeds=1,
        capture=CAPTURE,
        resources=resources,
    )
    with sessions.begin() as session:
        return a_job(session, spec)


def has_saved(sessions: Sessions, job_id: UUID) -> bool:
    return saved_step(sessions, job_id) > 0


def saved_step(sessions: Sessions, job_id: UUID) -> int:
    with sessions() as session:
        saved = select(TrainingStateRow.step).where(TrainingStateRow.job_id == job_id)
        return session.scalar(saved) or 0


def killed_midway(cluster: Cluster, sessions: Sessions, watched: Watched) -> UUID:
    """A job whose worker was killed after it had saved a state.

    Most of its steps were still to come, or the server could be reading its last report.
    """
    for steps in (4_000, 16_000, 80_000):
        job_id = submit(sessions, steps)
        worker = cluster.worker()

        def is_midway(job_id: UUID = job_id) -> bool:
            return has_saved(sessions, job_id) or watched.job(job_id).state == "succeeded"

        wait_until(is_midway, "a saved state", 2 * PATIENCE)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        if watched.job(job_id).state == "running" and saved_step(sessions, job_id) <= steps // 4:
            return job_id
    raise AssertionError("every job ended before its worker could be killed")


def take_back(sessions: Sessions, watched: Watched, job_id: UUID) -> int:
    """Queue the job of a killed worker again; return the step it has saved.

    The server may still be writing the worker's last report, which locks the job or renews its
    lease, so that one try is not enough.
    """

    def is_taken_back() -> bool:
        change(sessions, job_id, lease_expires_at=AGO)
        with sessions.begin() as session:
            reap(session)
        return watched.job(job_id).state != "running"

    wait_until(is_taken_back, "the end of the lease")
    change(sessions, job_id, run_at=AGO)
    return saved_step(sessions, job_id)


def test_a_worker_whose_token_is_gone_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ADAPTLAB_TOKEN", raising=False)
    monkeypatch.setenv("ADAPTLAB_TOKEN_FILE", str(tmp_path / "gone.token"))
    with pytest.raises(LedgerRefused, match="gone"), open_door("http://127.0.0.1:9"):
        pass


def a_token_file(server: Running, job_id: UUID, folder: Path) -> Path:
    """Return the file with a job's token that `sbatch-script` writes."""
    made = server.client.post(f"/v1/jobs/{job_id}/tokens", json={})
    assert made.status_code == 201, made.text
    file = file_of_job({}, str(job_id), folder / "tokens of jobs")
    keep_of_job(file, made.json()["token"])
    return file


@pytest.mark.long("chaos at length")
def test_a_job_whose_worker_is_killed_goes_on_with_one_that_may_have_it_alone(
    server: Running, cluster: Cluster, sessions: Sessions, watched: Watched, tmp_path: Path
) -> None:
    job_id = killed_midway(cluster, sessions, watched)
    saved = take_back(sessions, watched, job_id)
    for_others = submit(sessions, 1, priority=9)
    of_this_job = a_token_file(server, job_id, tmp_path)
    its_own = cluster.worker("--once", "--idle-timeout", "60", token_file=of_this_job)
    assert its_own.wait(5 * PATIENCE) == 0
    assert watched.job(for_others).state == "queued"
    row = watched.job(job_id)
    assert (row.state, row.attempt) == ("succeeded", 2)
    assert outcomes(sessions, job_id) == ["lost", "succeeded"]
    assert f"resumes after step {saved}" in cluster.log
    with sessions() as session:
        for table in (MetricPointRow, EvaluationRow, CheckpointRow, AttentionMapRow):
            mine = select(func.count()).where(table.job_id == job_id, table.attempt == 2)
            assert session.scalars(mine).one() > 0, table.__tablename__


@pytest.mark.long("chaos at length")
def test_an_uploaded_model_reaches_workers_that_can_read_no_folder(
    cluster: Cluster, server: Running, sessions: Sessions, watched: Watched, tmp_path: Path
) -> None:
    """Also the second one, which resumes what the first, killed, has saved."""
    folder = a_model_folder(tmp_path / "llama")
    with sessions.begin() as session:
        token = a_token(session)
    with Client(server.url, token) as client:
        made = client.model_folders.upload("llama", folder)
        imported = client.base_models.import_folder("tiny", made.folder)
        job = client.jobs.submit(ADAPT)
        shutil.rmtree(folder)
        first = cluster.worker()
        wait_until(lambda: has_saved(sessions, job.id), "a saved state", 2 * PATIENCE)
        first.kill()
        first.wait()
        take_back(sessions, watched, job.id)
        cluster.worker()
        ended = watched.wait_for_state(job.id, "failed", "succeeded")
        assert (ended.state, ended.error) == ("succeeded", None)
        assert ended.attempt == 2
        assert client.jobs.get(imported.id).succeeded
        assert {score.attached for score in client.jobs.evaluations(job.id)} == {True, False}
        assert {found.source for found in client.jobs.attention(job.id)} == {"base", "adapted"}
        (checkpoint,) = client.jobs.checkpoints(job.id)
        client.checkpoints.export(checkpoint, tmp_path / "peft")
        config = json.loads((tmp_path / "peft" / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == "uploaded/llama"
        adapter = client.model_folders.upload("mine", tmp_path / "peft")
        shutil.rmtree(tmp_path / "peft")
        again = client.checkpoints.import_folder("tiny", adapter.folder, ADAPT["task"])
        ended = watched.wait_for_state(again.id, "failed", "succeeded")
        assert (ended.state, ended.error) == ("succeeded", None)
