"""A trainer holds no key, is bound by limits, and is not root."""

import errno
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_resolved_spec
from tests.worker.conftest import (
    ROOT,
    Control,
    Processes,
    Watched,
    a_control,
    worker_processes,
)

from adaptlab.runs.events import CheckpointWritten
from adaptlab.runs.inputs import LocalFile, PlacedInputs
from adaptlab_db.tables import CheckpointRow
from adaptlab_services.settings import Settings
from adaptlab_worker.confinement import own_users
from adaptlab_worker.confinement.confinement import LARGEST_FILE, OPEN_FILES, TrainerLimits
from adaptlab_worker.confinement.installation import OF_THE_KERNEL, file_rules
from adaptlab_worker.confinement.landlock import FileRules, can_keep_signals_inside
from adaptlab_worker.confinement.own_users import TRAINER_USERS
from adaptlab_worker.confinement.trainer_user import TrainerUser, trainer_user
from adaptlab_worker.errors import TrainerUserBarred
from adaptlab_worker.loop.slot_settings import slot_options
from adaptlab_worker.trainer.protocol import Ended, Message, RunRequest
from adaptlab_worker.trainer.scratch import SlotFolders
from adaptlab_worker.trainer.trainer_process import (
    TrainerOptions,
    TrainerProcess,
    trainer_environment,
)

GIB = 2**30
NOBODY = "nobody"
NO_CAPABILITIES = "0000000000000000"
PASSING = "0000000000000004"  # CAP_DAC_READ_SEARCH
CANARY = "canary-4711"
SECRETS = (
    *("ADAPTLAB_TOKEN", "ADAPTLAB_S3_SECRET_ACCESS_KEY", "PGPASSWORD", "AWS_ACCESS_KEY_ID"),
    *("HF_TOKEN", "DATABASE_URL", "REDIS_URL", "SLURM_JWT", "SSH_AUTH_SOCK", "MY_API_KEY"),
)

Sessions = sessionmaker[Session]
Report = dict[str, Any]  # of what `look_about` notes, each in a form of its own
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def submit(sessions: Sessions) -> object:
    with sessions.begin() as session:
        a_base_model(session)
        return a_job(session)


def report_of(control: Control) -> Report:
    return json.loads(control.read("report"))


@dataclass(frozen=True)
class Confined:
    """A confined run whose worker has secrets, and its trainer's report."""

    settings: Settings
    log: Path
    report: Report


@pytest.fixture(scope="module")
def confined(
    shared_settings: Settings, shared_sessions: Sessions, tmp_path_factory: pytest.TempPathFactory
) -> Confined:
    """Its worker ends as soon as it has removed the run's folder."""
    folder = tmp_path_factory.mktemp("confined")
    control, watched = a_control(folder), Watched(shared_sessions)
    job = submit(shared_sessions)
    memory = {"ADAPTLAB_TRAINER_MEMORY_BYTES": str(3 * GIB)}
    with worker_processes(shared_settings, control, folder / "workers.log") as processes:
        processes.start(
            *("worker", "--runner", f"{__package__}.confined_runs:look_about"),
            environment=memory | dict.fromkeys(SECRETS, CANARY),
        )
        assert watched.wait_for_state(job, "succeeded", "failed").state == "succeeded"
        report = report_of(control)
        watched.wait(job, lambda _: not Path(report["own"]).exists(), "the end of the run's folder")
    return Confined(shared_settings, processes.log, report)


@needs_linux
def test_a_trainer_is_given_no_secret_and_no_address(confined: Confined) -> None:
    environment = confined.report["environment"]
    given = json.dumps([environment, confined.report["arguments"]])
    assert CANARY not in given
    assert confined.settings.database_url not in given
    assert confined.settings.broker_url not in given
    own = {name for name in environment if name.startswith("ADAPTLAB_")}
    assert own <= {"ADAPTLAB_COMPILE"}, "which opens nothing"


@needs_linux
def test_a_trainer_has_two_pipes_open_and_not_the_log(confined: Confined) -> None:
    kinds = [file.partition(":")[0] for file in confined.report["files"]]
    kept = {kind for kind in kinds if kind.startswith("/proc/")}
    assert set(kinds) - kept == {"/dev/null", "pipe", "socket"}
    assert kinds.count("socket") == 1, "the pipe of messages"
    assert kinds.count("pipe") == 2, "stdout and stderr, which the worker reads"
    own = re.compile(r"/proc/\d+(/task|/clear_refs)?$")
    assert {path for path in kept if not own.match(path)} <= set(OF_THE_KERNEL), "as paths only"


@needs_linux
def test_a_trainer_is_bound_by_limits_and_dies_first_when_memory_is_short(
    confined: Confined,
) -> None:
    limits = confined.report["limits"]
    assert limits["RLIMIT_CORE"] == 0
    assert 0 < limits["RLIMIT_NOFILE"] <= OPEN_FILES
    assert 0 < limits["RLIMIT_FSIZE"] <= LARGEST_FILE
    assert limits["RLIMIT_DATA"] == 3 * GIB
    assert confined.report["oom"] == "500"
    assert "with at most 3072 MiB of memory each, and no network" in confined.log.read_text()


@needs_linux
def test_a_trainer_has_no_privilege_and_gets_none(confined: Confined) -> None:
    status = confined.report["status"]
    assert status["NoNewPrivs"] == "1"
    assert {status[f"Cap{which}"] for which in ("Eff", "Prm", "Inh", "Amb")} == {NO_CAPABILITIES}
    assert confined.report["become_root"] == "PermissionError"
    assert (status["Seccomp"], confined.report["dumpable"]) == ("2", 0)


@needs_linux
def test_a_trainer_and_its_children_reach_no_network(confined: Confined) -> None:
    report = confined.report
    assert (report["network"], report["network_of_a_child"]) == ("PermissionError", errno.EACCES)
    assert report["local_socket"] == "done", "as compilers and cards use"


@needs_linux
def test_a_trainer_cannot_read_trace_or_signal_its_worker(confined: Confined) -> None:
    report = confined.report
    assert report["worker_environment"] == report["worker_files"] == "PermissionError"
    assert (report["leave_the_group"], report["trace"]) == ("PermissionError", "Permission denied")
    assert report["signal"] == ("PermissionError" if can_keep_signals_inside() else "done")
    assert report["signal_to_a_child"] == -signal.SIGTERM


@needs_linux
def test_a_trainers_temporary_files_are_in_a_folder_that_goes_with_the_run(
    confined: Confined,
) -> None:
    path, mode = confined.report["temporary"]
    folder = confined.report["own"]
    assert (Path(path).is_relative_to(folder), mode) == (True, 0o600)
    assert not Path(folder).exists()


@needs_linux
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_open_only_where_that_was_asked_for(*, network: bool) -> None:
    limits = TrainerLimits(memory_bytes=GIB, network=network)
    tried = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "adaptlab_worker.confinement.confined",
                limits.model_dump_json(),
            ),
            f"{__package__}.knocking",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    told = "ConnectionRefusedError" if network else "PermissionError"
    assert json.loads(tried.stdout) == {"AF_INET": told, "AF_INET6": told}


@pytest.mark.long("long trainings")
@needs_linux
def test_the_cache_of_weights_is_as_large_as_configured(settings: Settings) -> None:
    options = slot_options(settings.model_copy(update={"cache_bytes": 7}), slots=1, runner=None)
    assert options.cache_bytes == 7
    assert slot_options(settings, slots=1, runner=None).cache_bytes == 4 * GIB


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
        assert session.scalar(select(func.count()).select_from(CheckpointRow)) == 2, "the base's"


@dataclass(frozen=True)
class OfAnotherUser:
    """A run whose trainer is another user: end, messages and report."""

    user: TrainerUser
    ended: Ended
    events: Sequence[Message]
    report: Report


@pytest.fixture(scope="module")
def of_another_user(tmp_path_factory: pytest.TempPathFactory) -> OfAnotherUser:
    """Below closed folders, as pytest's own and a Python's in `/root`."""
    folder = tmp_path_factory.mktemp("of-another-user")
    control = a_control(folder)
    control.folder.chmod(0o777)
    rules = file_rules(os.environ, (), (), network=False)
    limits = TrainerLimits(memory_bytes=3 * GIB, files=with_writable(rules, control.folder))
    user = trainer_user("auto", [], folder, limits)
    assert user is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("RUNNER_CONTROL", str(control.folder))
        ended, events = carry_out(SlotFolders(folder / "slot"), user, limits)
    return OfAnotherUser(user, ended, events, report_of(control))


@needs_linux
@needs_root
def test_where_the_worker_is_root_the_trainer_has_a_user_of_its_own(
    of_another_user: OfAnotherUser,
) -> None:
    user, report = of_another_user.user, of_another_user.report
    assert user.user in TRAINER_USERS
    assert report["user"] == user.user
    assert report["status"]["Groups"] == ""
    assert report["environment"]["HOME"] != os.environ["HOME"]
    kept = PASSING if user.passes else NO_CAPABILITIES
    assert {report["status"][f"Cap{which}"] for which in ("Eff", "Prm", "Amb")} == {kept}
    assert report["limits"]["RLIMIT_NPROC"] > 0


@needs_linux
@needs_root
def test_a_trainer_of_another_user_finishes_and_writes_its_checkpoint(
    of_another_user: OfAnotherUser,
) -> None:
    assert of_another_user.ended.outcome == "finished", of_another_user.ended.error
    assert any(isinstance(event, CheckpointWritten) for event in of_another_user.events)


@needs_linux
@needs_root
def test_a_trainer_of_another_user_reads_the_bases_and_changes_nothing_outside_its_run(
    of_another_user: OfAnotherUser,
) -> None:
    report = of_another_user.report
    assert report["bases"] == ["weights of seed 0"]
    assert report["base"] == ["PermissionError"]
    assert report["beside"] == "PermissionError"
    assert report["worker_environment"] == "PermissionError"


def with_writable(rules: FileRules, folder: Path) -> FileRules:
    return rules.model_copy(update={"writable": (str(folder),)})


def carry_out(
    folders: SlotFolders, user: TrainerUser, limits: TrainerLimits
) -> tuple[Ended, list[Message]]:
    """One run as that user: how it ended, and what it reported."""
    named = f"{__package__}.confined_runs:look_about"
    options = TrainerOptions(runner=named, user=user, limits=limits, passed_on=("RUNNER_CONTROL",))
    trainer = TrainerProcess(options, folders)
    events: list[Message] = []
    try:
        trainer.await_ready(lambda: False)
        look = ["/bin/cat", f"/proc/{trainer.pid}/environ"]
        looked = subprocess.run(look, user=user.user, capture_output=True, text=True, check=False)
        assert "Permission denied" in looked.stderr, "another trainer would be the same user"
        with folders.attempt("job-1") as given:
            base = given / "base-0.safetensors"
            base.write_text("weights of seed 0")
            base.chmod(0o600)
            folder = trainer.make_run_folder(given)
            trainer.send(
                RunRequest(
                    run="1",
                    resolved=a_resolved_spec(),
                    inputs=PlacedInputs(bases=(LocalFile(sha256="0" * 64, path=base),)),
                    scratch=folder,
                )
            )
            while True:
                message = trainer.receive(60)
                if isinstance(message, Ended):
                    return message, events
                assert message is not None, "nothing came for a minute"
                events.append(message)
    finally:
        trainer.close()


@needs_root
def test_a_user_who_cannot_run_trainers_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    without_rules = TrainerLimits(memory_bytes=GIB)
    for named in (NOBODY, "auto"):
        with pytest.raises(TrainerUserBarred, match="cannot run as") as barred:
            trainer_user(named, [closed], tmp_path, without_rules)
        assert "start the worker as an ordinary user" in str(barred.value)
        assert "=same" not in str(barred.value), "which would be refused as well"
    with pytest.raises(TrainerUserBarred, match="There is no user 'no-such-user'"):
        trainer_user("no-such-user", [], tmp_path, without_rules)


@needs_root
@pytest.mark.parametrize("wanted", ["same", "root"])
def test_nobody_trains_as_root_with_all_of_its_files(wanted: str, tmp_path: Path) -> None:
    """Without rules for files a root run could write `/etc`.

    An ordinary user can write its own files alone.
    """
    without_rules = TrainerLimits(memory_bytes=GIB)
    with pytest.raises(TrainerUserBarred, match="every file of this machine") as barred:
        trainer_user(wanted, [], tmp_path, without_rules)
    assert "Start the worker as an ordinary user" in str(barred.value)
    rules = file_rules(os.environ, (), (), network=False)
    user = trainer_user(wanted, [], tmp_path, without_rules.model_copy(update={"files": rules}))
    assert user is None or user.user == 0


@needs_root
def test_a_container_without_the_user_ids_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tmp_path / "uid_map"
    few.write_text("         0       1000          1\n         1     100000       1000\n")
    monkeypatch.setattr(own_users, "USER_MAP", few)
    with pytest.raises(TrainerUserBarred, match="exists in this container"):
        trainer_user("auto", [], tmp_path, TrainerLimits(memory_bytes=GIB))


def test_a_worker_that_is_not_root_cannot_be_told_to_become_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    for wanted in ("auto", "same"):
        assert trainer_user(wanted, [], tmp_path, TrainerLimits(memory_bytes=GIB)) is None
    with pytest.raises(TrainerUserBarred, match="is not root"):
        trainer_user("root", [], tmp_path, TrainerLimits(memory_bytes=GIB))


def test_only_what_is_named_reaches_a_trainer() -> None:
    given = dict.fromkeys((*SECRETS, "PATH", "OMP_NUM_THREADS", "LC_ALL", "MINE"), CANARY)
    kept = trainer_environment(given, TrainerOptions(passed_on=("MINE",)))
    assert {name for name, value in kept.items() if value == CANARY} == {
        *("PATH", "OMP_NUM_THREADS", "LC_ALL", "MINE")
    }
