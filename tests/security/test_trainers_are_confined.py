"""A trainer holds no key, is bound by limits, and is somebody else where the worker is root."""

import errno
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_resolved_spec
from tests.worker.conftest import ROOT, Control, Processes, Watched

from adaptlab.results import CheckpointWritten
from adaptlab_db.tables import Checkpoint
from adaptlab_services.settings import Settings
from adaptlab_worker.confinement import LARGEST_FILE, OPEN_FILES, Limits
from adaptlab_worker.errors import TrainerUserBarred
from adaptlab_worker.protocol import Ended, Message, RunRequest
from adaptlab_worker.slot_settings import slot_options
from adaptlab_worker.system_calls import can_keep_signals_inside
from adaptlab_worker.trainer_process import TrainerOptions, TrainerProcess, trainer_environment
from adaptlab_worker.trainer_user import NOBODY, TrainerUser, trainer_user

GIB = 2**30
NOBODYS_ID = 65534
NO_CAPABILITIES = "0000000000000000"
CANARY = "canary-4711"
SECRETS = (
    *("ADAPTLAB_TOKEN", "ADAPTLAB_S3_SECRET_ACCESS_KEY", "PGPASSWORD", "AWS_ACCESS_KEY_ID"),
    *("HF_TOKEN", "DATABASE_URL", "REDIS_URL", "SLURM_JWT", "SSH_AUTH_SOCK", "MY_API_KEY"),
)
PACKAGES = ("api", "client", "core", "db", "services", "stack", "worker")

Sessions = sessionmaker[Session]
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def submit(sessions: Sessions) -> object:
    with sessions.begin() as session:
        a_base_model(session)
        return a_job(session)


def report_of(control: Control) -> dict[str, Any]:
    return json.loads(control.read("report"))


@needs_linux
def test_a_trainer_holds_no_key_and_is_bound(
    processes: Processes, sessions: Sessions, watched: Watched, control: Control
) -> None:
    job = submit(sessions)
    secrets = dict.fromkeys(SECRETS, CANARY)
    url = processes.settings.database_url
    own = {"ADAPTLAB_TRAINER_MEMORY_BYTES": str(3 * GIB), **secrets}
    processes.start(
        "worker", "--runner", f"{__package__}.confined_runs:look_about", environment=own
    )
    assert watched.wait_for_state(job, "succeeded", "failed").state == "succeeded"
    found = report_of(control)
    told = json.dumps([found["environment"], found["arguments"]])
    assert CANARY not in told
    assert url not in told
    assert processes.settings.broker_url not in told
    assert [name for name in found["environment"] if name.startswith("ADAPTLAB_")] == []
    kinds = {file.partition(":")[0] for file in found["files"]}
    assert kinds == {"/dev/null", str(processes.log), "socket"}
    assert len([file for file in found["files"] if file.startswith("socket:")]) == 1, "the pipe"
    assert found["limits"]["RLIMIT_CORE"] == 0
    assert 0 < found["limits"]["RLIMIT_NOFILE"] <= OPEN_FILES
    assert 0 < found["limits"]["RLIMIT_FSIZE"] <= LARGEST_FILE
    assert found["limits"]["RLIMIT_DATA"] == 3 * GIB
    assert found["oom"] == "500"
    assert found["status"]["NoNewPrivs"] == "1"
    assert {found["status"][f"Cap{which}"] for which in ("Eff", "Prm", "Inh", "Amb")} == {
        NO_CAPABILITIES
    }
    assert found["become_root"] == "PermissionError"
    assert found["worker_environment"] == found["worker_files"] == "PermissionError"
    assert (found["status"]["Seccomp"], found["dumpable"]) == ("2", 0)
    assert (found["network"], found["network_of_a_child"]) == ("PermissionError", errno.EACCES)
    assert (found["leave_the_group"], found["trace"]) == ("PermissionError", "Permission denied")
    assert found["local_socket"] == "done", "as compilers and cards use"
    assert found["signal"] == ("PermissionError" if can_keep_signals_inside() else "done")
    assert found["signal_to_a_child"] == -signal.SIGTERM
    path, mode = found["temporary"]
    assert (Path(path).is_relative_to(found["own"]), mode) == (True, 0o600)
    watched.wait(job, lambda _: not Path(found["own"]).exists(), "the end of the run's folder")
    assert "with at most 3072 MiB of memory each, and no network" in processes.log.read_text()


@needs_linux
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_open_only_where_that_was_asked_for(*, network: bool) -> None:
    limits = Limits(memory_bytes=GIB, network=network)
    tried = subprocess.run(
        [
            *(sys.executable, "-m", "adaptlab_worker.confined", limits.model_dump_json()),
            f"{__package__}.knocking",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    told = "ConnectionRefusedError" if network else "PermissionError"
    assert json.loads(tried.stdout) == {"AF_INET": told, "AF_INET6": told}


@needs_linux
def test_a_kernel_that_takes_no_filter_is_told_of(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with caplog.at_level("INFO"):
        slot_options(settings, slots=1, runner=None)
    assert "trainers can reach the network" in caplog.text
    assert "and the network" in caplog.text


@needs_linux
def test_a_run_that_takes_all_memory_ends_as_such_and_the_worker_goes_on(
    processes: Processes, sessions: Sessions, watched: Watched
) -> None:
    job = submit(sessions)
    worker = processes.start(
        *("worker", "--runner", f"{__package__}.confined_runs:devour"),
        environment={"ADAPTLAB_TRAINER_MEMORY_BYTES": str(3 * GIB)},
    )
    ended = watched.wait_for_state(job, "failed")
    assert ended.reason == "out_of_memory"
    assert worker.poll() is None


@pytest.mark.parametrize("deed", ["link_elsewhere", "pipe_instead", "remove_elsewhere"])
def test_a_trainer_cannot_have_its_worker_touch_what_is_not_the_runs(
    processes: Processes, sessions: Sessions, watched: Watched, control: Control, deed: str
) -> None:
    victim = control.folder / "victim"
    victim.write_text("of somebody else")
    job = submit(sessions)
    processes.start("worker", "--runner", f"{__package__}.confined_runs:{deed}")
    watched.wait(job, lambda job: job.attempt >= 1 and job.state != "running", "the attempt's end")
    assert watched.job(job).state != "succeeded"
    assert victim.read_text() == "of somebody else"
    with sessions.begin() as session:
        assert session.scalar(select(func.count()).select_from(Checkpoint)) == 2, "the base's"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="adaptlab-open-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def python_for_nobody() -> str:
    """A Python of this version that `nobody` may run, with our packages; skips where none is."""
    candidates = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    version = f"import sys, pydantic; print(sys.version_info[:2] == {tuple(sys.version_info[:2])})"
    for python in filter(os.path.exists, candidates):
        try:
            tried = subprocess.run(
                [python, "-c", version],
                user=NOBODY,
                group=NOBODYS_ID,
                extra_groups=[],
                env={"PYTHONPATH": _path()},
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            continue
        if tried.stdout.strip() == "True":
            return python
    pytest.skip("there is no Python of this version that `nobody` may run")


def _path() -> str:
    import pydantic

    packages = Path(pydantic.__file__).parents[1]
    return os.pathsep.join([str(ROOT), *(str(ROOT / name) for name in PACKAGES), str(packages)])


@needs_linux
@needs_root
def test_where_the_worker_is_root_the_trainer_is_nobody(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    monkeypatch.setattr(sys, "executable", python_for_nobody())
    monkeypatch.setenv("PYTHONPATH", _path())
    control = Control(open_folder / "control")
    control.folder.mkdir()
    control.folder.chmod(0o777)
    monkeypatch.setenv("RUNNER_CONTROL", str(control.folder))
    scratch = open_folder / "scratch"
    scratch.mkdir(mode=0o700)
    base = scratch / "base-0.safetensors"
    base.write_text("weights of seed 0")
    base.chmod(0o600)
    user = trainer_user("auto", [open_folder])
    assert user is not None
    assert (user.name, user.user) == (NOBODY, NOBODYS_ID)
    ended, events = carry_out(scratch, base, user)
    assert ended.outcome == "finished", ended.error
    assert any(isinstance(event, CheckpointWritten) for event in events)
    found = report_of(control)
    assert found["user"] == NOBODYS_ID
    assert found["status"]["Groups"] == ""
    assert found["environment"]["HOME"] != os.environ["HOME"]
    assert found["status"]["CapEff"] == NO_CAPABILITIES
    assert found["bases"] == ["weights of seed 0"], "it may read them"
    assert found["base"] == ["PermissionError"], "and not change them"
    assert found["beside"] == "PermissionError"
    assert found["worker_environment"] == "PermissionError"
    assert found["limits"]["RLIMIT_NPROC"] > 0


def carry_out(scratch: Path, base: Path, user: TrainerUser) -> tuple[Ended, list[Message]]:
    """One run as that user: how it ended, and what it reported."""
    named = f"{__package__}.confined_runs:look_about"
    trainer = TrainerProcess(TrainerOptions(runner=named, user=user, passed_on=("RUNNER_CONTROL",)))
    events: list[Message] = []
    try:
        trainer.await_ready(lambda: False)
        look = [sys.executable, "-c", f"open('/proc/{trainer.pid}/environ').read()"]
        looked = subprocess.run(
            look,
            user=user.user,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert "PermissionError" in looked.stderr, "another trainer would be the same user"
        folder = trainer.folder_below(scratch)
        request = RunRequest(run="1", resolved=a_resolved_spec(), bases=(base,), scratch=folder)
        trainer.send(request)
        while True:
            message = trainer.receive(60)
            if isinstance(message, Ended):
                return message, events
            assert message is not None, "nothing came for a minute"
            events.append(message)
    finally:
        trainer.close()


@needs_root
def test_a_user_who_cannot_run_trainers_is_refused_or_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(TrainerUserBarred, match="'nobody' cannot run trainers here"):
        trainer_user(NOBODY, [closed])
    with pytest.raises(TrainerUserBarred, match="There is no user 'no-such-user'"):
        trainer_user("no-such-user", [])
    assert trainer_user("auto", [closed]) is None
    assert "trainers run as root" in caplog.text
    assert "ADAPTLAB_TRAINER_USER" in caplog.text
    assert trainer_user("same", [closed]) is None


def test_a_worker_that_is_not_root_cannot_be_told_to_become_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert trainer_user("auto", []) is None
    with pytest.raises(TrainerUserBarred, match="is not root"):
        trainer_user("root", [])


def test_only_what_is_named_reaches_a_trainer() -> None:
    given = dict.fromkeys((*SECRETS, "PATH", "OMP_NUM_THREADS", "LC_ALL", "MINE"), CANARY)
    kept = trainer_environment(given, TrainerOptions(passed_on=("MINE",)))
    assert {name for name, value in kept.items() if value == CANARY} == {
        *("PATH", "OMP_NUM_THREADS", "LC_ALL", "MINE")
    }
