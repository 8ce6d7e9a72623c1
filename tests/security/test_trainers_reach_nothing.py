"""Attacks by a confined trainer on the machine and other jobs."""

import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.making import a_resolved_spec
from tests.worker.conftest import ROOT

import adaptlab_worker
from adaptlab.runs.inputs import LocalFile, PlacedInputs
from adaptlab_services.settings import Settings
from adaptlab_stack.servers import embedded_servers
from adaptlab_worker.confinement import confinement, landlock, trainer_user
from adaptlab_worker.confinement.own_users import POSTGRES_USERS, TRAINER_USERS
from adaptlab_worker.errors import TrainerUserBarred
from adaptlab_worker.loop import slot_settings
from adaptlab_worker.loop.slot_settings import slot_options
from adaptlab_worker.trainer.protocol import Ended, Message, RunRequest
from adaptlab_worker.trainer.scratch import SlotFolders
from adaptlab_worker.trainer.trainer_process import TrainerProcess

RUNNER = f"{__package__}.trainer_attacks:attack"
WITHOUT_FILE_RULES = "this kernel lacks Landlock"
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="of Linux's defences"),
    pytest.mark.skipif(os.geteuid() != 0, reason="of a worker that is root"),
]
needs_file_rules = pytest.mark.skipif(landlock.version() == 0, reason=WITHOUT_FILE_RULES)

Outcomes = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Scene:
    """A stopped database, another job's files and a secret elsewhere."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def control(self) -> Path:
        return self.folder / "control"

    def of_the_database(self) -> tuple[Path, ...]:
        cluster = self.data / "postgres"
        table = next(path for path in sorted((cluster / "base").rglob("*")) if path.is_file())
        return cluster / "pg_hba.conf", cluster / "postgresql.auto.conf", table

    def others(self) -> tuple[Path, ...]:
        return (
            *(self.data / "token", self.data / "credentials.json", self.data / "lock"),
            self.data / "worker" / "scratch" / "worker-other" / "slot-0" / "run" / "state",
            self.data / "worker" / "scratch" / "worker-other" / "slot-0" / "given" / "base",
            self.folder / "home" / "id_ed25519",
            Path("/etc/hosts"),
            Path("/etc/shadow"),
        )

    def installation(self) -> tuple[Path, ...]:
        """What is read and never written to."""
        return (
            Path(str(adaptlab_worker.__file__)),
            Path(sys.executable).resolve(),
            Path("/etc/passwd"),
            Path("/proc/sys/kernel/core_pattern"),
        )

    def settings(self, user: str) -> Settings:
        return Settings(
            database_url="postgresql://unused@localhost/unused",
            broker_url="redis://localhost",
            data_dir=self.data,
            trainer_user=user,
            trainer_environment=("RUNNER_CONTROL",),
            trainer_writes=(self.control,),
        )


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """Made once: a database takes seconds."""
    scene = Scene(Path(tempfile.mkdtemp(prefix="adaptlab-attacked-")))
    scene.folder.chmod(0o755)
    with embedded_servers(scene.data, durable=False):
        pass
    for path in scene.others()[:6]:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("of somebody else")
            path.chmod(0o600)
    scene.control.mkdir()
    scene.control.chmod(0o777)
    yield scene
    shutil.rmtree(scene.folder)


@pytest.fixture
def attacked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    targets = (*scene.of_the_database(), *scene.others(), *scene.installation())
    (scene.control / "targets").write_text(json.dumps([str(target) for target in targets]))
    (scene.control / "report").unlink(missing_ok=True)
    monkeypatch.setenv("RUNNER_CONTROL", str(scene.control))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return scene


def attack(scene: Scene, user: str) -> Outcomes:
    """What a run could do that is given the settings of a worker."""
    options = slot_options(scene.settings(user), 1, RUNNER).trainer
    folders = SlotFolders(_fresh(scene.data / "worker" / "scratch" / "slot"))
    state = scene.others()[3]
    owner = os.geteuid() if options.user is None else options.user.user
    os.chown(state, owner, owner)  # another trainer of the same worker runs as the same user
    trainer = TrainerProcess(options, folders)
    try:
        with closing(_listening(scene.control / "socket")), folders.attempt("job-1") as given:
            base = given / "base-0.safetensors"
            base.write_text("weights of seed 0")
            assert trainer.await_ready(lambda: False)
            run = trainer.make_run_folder(given)
            trainer.send(
                RunRequest(
                    run="1",
                    resolved=a_resolved_spec(),
                    inputs=PlacedInputs(bases=(LocalFile(sha256="0" * 64, path=base),)),
                    scratch=run,
                )
            )
            ended = _ended(trainer)
            assert ended.outcome == "finished", ended.error
    finally:
        trainer.close()
    return json.loads((scene.control / "report").read_text())


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _listening(path: Path) -> socket.socket:
    """Like a service manager's, which obeys anyone who may connect."""
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    path.chmod(0o777)
    return server


def _ended(trainer: TrainerProcess) -> Ended:
    message: Message | None = None
    while not isinstance(message, Ended):
        message = trainer.receive(60)
        assert message is not None, "nothing came for a minute"
    return message


def successes(outcomes: Outcomes, *targets: Path, besides: tuple[str, ...] = ()) -> list[str]:
    """What was done to the targets, of all that was tried."""
    return [
        f"{attempt} {target}"
        for target in targets
        for attempt, outcome in outcomes[str(target)].items()
        if outcome == "done" and attempt not in besides
    ]


@pytest.mark.long("every combination", but=1)
@needs_file_rules
@pytest.mark.parametrize("user", ["auto", "same"])
def test_a_run_reaches_its_own_files_and_no_others(attacked: Scene, user: str) -> None:
    outcomes = attack(attacked, user)
    assert successes(outcomes, *attacked.of_the_database(), *attacked.others()) == []
    assert successes(outcomes, *attacked.installation(), besides=("read",)) == []
    reads = [outcomes[str(path)]["read"] for path in attacked.installation()]
    assert reads == ["done"] * len(reads)
    own = outcomes["own"]
    assert (own["base"], own["run"]) == ("done", "done")
    assert own["write_base"] == "PermissionError", "the file is the cache's too"
    assert own["socket"] == "PermissionError"
    assert (own["thread"], own["thread_of_worker"]) == ("done", "PermissionError")
    assert (int(own["user"]) in TRAINER_USERS) == (user == "auto")


def test_the_database_has_another_user_than_the_trainers(attacked: Scene) -> None:
    postgres = (attacked.data / "postgres").stat().st_uid
    options = slot_options(attacked.settings("auto"), 1, RUNNER).trainer
    assert options.user is not None
    assert postgres in POSTGRES_USERS
    assert options.user.user in TRAINER_USERS
    assert not set(POSTGRES_USERS) & set(TRAINER_USERS)


@needs_file_rules
def test_the_attacks_succeed_without_the_defences(
    attacked: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above can fail: root without rules and filter."""
    limits = slot_settings.TrainerLimits

    def without_file_rules(**given: Any) -> confinement.TrainerLimits:
        return limits(**given).model_copy(update={"files": None})

    monkeypatch.setattr(slot_settings, "TrainerLimits", without_file_rules)
    monkeypatch.setattr(trainer_user, "trainer_user", lambda *_: None)  # which would refuse it
    outcomes = attack(attacked, "same")
    done = successes(outcomes, *attacked.others())
    for path in (attacked.data / "token", Path("/etc/hosts"), attacked.others()[3]):
        assert f"write {path}" in done
        assert f"read {path}" in done
        assert f"chmod {path}" not in done, "refused by the filter of system calls"
    assert outcomes[str(Path("/proc/sys/kernel/core_pattern"))]["write"] == "done"


def test_a_worker_that_is_root_does_not_start_where_only_root_could_train(
    attacked: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_settings, "version", lambda: 0)
    closed = attacked.folder / "closed"
    closed.mkdir(mode=0o700, exist_ok=True)
    settings = attacked.settings("auto").model_copy(update={"data_dir": closed / "data"})
    with pytest.raises(TrainerUserBarred, match="start the worker as an ordinary user"):
        slot_options(settings, 1, RUNNER)
    for root in ("same", "root"):
        with pytest.raises(TrainerUserBarred, match="Start the worker as an ordinary user"):
            slot_options(attacked.settings(root), 1, RUNNER)


def test_a_kernel_without_rules_for_files_is_logged(
    attacked: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slot_settings, "version", lambda: 0)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)  # root would not start
    with caplog.at_level("INFO"):
        slot_options(attacked.settings("same"), 1, RUNNER)
    assert "trainers can read and write whatever the worker's user can" in caplog.text
    assert "lacks Landlock" in caplog.text


@needs_file_rules
def test_what_a_trainer_is_given_to_read_ends_at_the_data_folder(tmp_path: Path) -> None:
    """As where the data folder is in a source tree that PYTHONPATH names."""
    from adaptlab_worker.confinement.installation import file_rules

    for name in ("tree/package/module.py", "tree/.adaptlab/token", "tree/setup.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    data = tmp_path / "tree" / ".adaptlab"
    environment = {"PYTHONPATH": str(tmp_path / "tree")}
    rules = file_rules(environment, (), (data,), network=False)
    below = {path for path in rules.readable if path.startswith(str(tmp_path))}
    assert below == {str(tmp_path / "tree" / "package"), str(tmp_path / "tree" / "setup.py")}
