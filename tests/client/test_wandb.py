"""Runs as W&B's offline runs, which `wandb sync` sends."""

import json
import math
import socket
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.client.conftest import Invoke
from tests.real_boards import real_wandb
from tests.wandb_server import wandb_server

from adaptlab.errors import TrackerRefused
from adaptlab_answers.trackers.tracked_runs import TrackedPoint, TrackedRun
from adaptlab_client.trackers.wandb import LONGEST_TAG, WandbFolder

__all__ = ["real_wandb"]  # found here by pytest

DAY = datetime(2026, 1, 2, tzinfo=UTC)
STUDY = TrackedRun(
    key="0001", path=("sizes",), state="succeeded", created_at=DAY, started_at=DAY, ended_at=DAY,
    parameters={}, tags={"adaptlab.url": "http://lab/studies/sizes", "adaptlab.verdict": "LoRA."},
    points=(), note="LoRA.",
)  # fmt: skip
JOB = replace(
    STUDY, key="0002", path=("sizes", "lora-0002"), note="",
    parameters={"kind": "adapt", "method": "lora", "budget": "64"},
    tags={"labels.team": "a" * 99, "adaptlab.verdict": "best"},
    points=tuple(
        TrackedPoint(f"test/accuracy{one}", 9, value)
        for one, value in {"": 0.75, "_low": 0.7, "_high": 0.8}.items()
    ),
)  # fmt: skip
SEED = replace(
    JOB, key="0002/1", path=(*JOB.path, "seed-1"), state="failed",
    parameters={"seed": "1", "learning_rate": "0.001"}, tags={"adaptlab.status": "diverged"},
    points=(*(TrackedPoint("curves/train_loss", step, 2.0 / step) for step in range(1, 9)),
            TrackedPoint("curves/train_loss", 9, math.inf), TrackedPoint("test/loss", 9, 0.5)),
)  # fmt: skip
RUNS = (STUDY, JOB, SEED)


class StandIn(ModuleType):
    """A package that keeps what it is given, in files without content."""

    class Error(Exception):
        """Says that its process does not run."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.begun: list[dict[str, Any]] = []
        self.steps: list[dict[int, dict[str, float]]] = []
        self.summary: dict[str, Any] = {}
        self.ended: list[int] = []
        self.Settings = dict

    def init(self, **given: Any) -> "StandIn":
        place = Path(given["dir"]) / f"wandb/offline-run-{given['id']}"
        place.mkdir(parents=True)
        (place / f"run-{given['id']}.wandb").write_text("a run")
        self.begun.append(given)
        self.steps.append({})
        return self

    def log(self, figures: dict[str, float], step: int) -> None:
        self.steps[-1][step] = figures

    def finish(self, exit_code: int) -> None:
        self.ended.append(exit_code)


def sent(folder: Path) -> list[Path]:
    """Mark all runs as `wandb sync` does."""
    marks = [file.with_suffix(".wandb.synced") for file in folder.glob("*/*.wandb")]
    for mark in marks:
        mark.touch()
    return marks


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "true")
    made = StandIn()
    monkeypatch.setitem(sys.modules, "wandb", made)
    return made


def test_a_study_is_a_group_of_runs_with_settings_curves_and_verdict(
    stand_in: StandIn, tmp_path: Path
) -> None:
    assert WandbFolder(tmp_path, "ours").send(RUNS) == 3
    study, job, seed = stand_in.begun
    assert {(one["group"], one["project"], one["mode"]) for one in stand_in.begun} == {
        ("sizes", "ours", "offline")
    }
    assert [one["job_type"] for one in stand_in.begun] == ["study", "adapt", "seed"]
    assert study["notes"] == "LoRA.\n\nhttp://lab/studies/sizes"
    assert (job["config"]["budget"], job["config"]["method"]) == (64, "lora")
    assert job["tags"] == sorted(["succeeded", f"team={'a' * 99}"[:LONGEST_TAG]])
    assert (seed["name"], seed["config"]["learning_rate"]) == ("lora-0002/seed-1", 0.001)
    assert seed["config"]["adaptlab"]["status"] == "diverged"
    assert stand_in.ended == [0, 0, 1]


def test_curves_have_their_steps_and_scores_are_in_the_summary(
    stand_in: StandIn, tmp_path: Path
) -> None:
    WandbFolder(tmp_path).send([SEED])
    (steps,) = stand_in.steps
    assert list(steps) == list(range(1, 10))
    assert steps[4] == {"curves/train_loss": 0.5}
    assert math.isnan(steps[9]["curves/train_loss"])
    assert (stand_in.summary["test/loss"], stand_in.summary["state"]) == (0.5, "failed")
    WandbFolder(tmp_path).send([JOB])
    assert stand_in.steps[-1] == {}
    assert stand_in.summary["verdict"] == "best"
    assert stand_in.summary["test/accuracy_low"] == 0.7


def test_only_a_run_that_has_changed_is_written_and_sent_again(
    stand_in: StandIn, tmp_path: Path
) -> None:
    for _ in range(2):
        assert WandbFolder(tmp_path).send(RUNS) == 3
    assert len(stand_in.begun) == 3
    marks = sent(tmp_path)
    WandbFolder(tmp_path).send([STUDY, replace(JOB, state="cancelled"), SEED])
    assert [one["id"] for one in stand_in.begun] == ["0001", "0002", "0002-1", "0002"]
    (unsent,) = [mark for mark in marks if not mark.exists()]
    assert unsent.name == "run-0002.wandb.synced"
    assert list(tmp_path.glob("*/.part")) == []


def test_curves_that_were_sent_are_not_written_again(stand_in: StandIn, tmp_path: Path) -> None:
    changes = [replace(SEED, tags={"adaptlab.status": status}) for status in ("a", "b", "c")]
    board = WandbFolder(tmp_path)
    board.send([SEED])
    board.send(changes[:1])
    assert len(stand_in.steps[1]) == 9, "they were not sent yet"
    sent(tmp_path)
    board.send(changes[1:])
    assert stand_in.steps[2:] == [{}, {}]
    sent(tmp_path)
    WandbFolder(tmp_path, "another").send([SEED])
    assert len(stand_in.steps[-1]) == 9


def test_what_was_sent_is_known_after_a_kill(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = WandbFolder(tmp_path)
    board.send([SEED])
    sent(tmp_path)
    changed = replace(SEED, tags={})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            board.send([changed])
    board.send([changed])
    assert stand_in.steps[1:] == [{}, {}]
    (file,) = tmp_path.glob("*/*.wandb")
    assert not file.with_suffix(".wandb.synced").exists()


def test_a_process_of_wandb_that_does_not_run_is_an_error_with_a_step(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**_: Any) -> StandIn:
        raise StandIn.Error("no core")

    monkeypatch.setattr(stand_in, "init", fails)
    with pytest.raises(TrackerRefused, match=r"no core\. Check that `wandb` works"):
        WandbFolder(tmp_path).send(RUNS)


def test_without_the_package_one_sentence_says_how_to_install_it(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "true")
    monkeypatch.setitem(sys.modules, "wandb", None)
    done = invoke("studies", "track", "sizes", "--wandb", str(tmp_path / "runs"))
    assert done.exit_code == 2
    assert "`pip install wandb`, or adaptlab with the extra `wandb`." in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.long("real W&B")
def test_a_server_that_gets_a_changed_run_has_it_once(real_wandb: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with wandb_server(real_wandb, tmp_path / "server") as server:
        WandbFolder(folder).send(RUNS)
        server.sync(folder)
        assert "No runs to sync" in server.sync(folder)
        *curves, score = SEED.points
        scored = replace(SEED, points=(*curves, replace(score, value=0.25)))
        again = replace(scored, tags={"adaptlab.status": "re-read"})
        WandbFolder(folder).send([STUDY, JOB, again])
        assert "Syncing 1 run(s)" in server.sync(folder)
    lines = server.history["0002-1"].values()
    assert [line["_step"] for line in lines] == [*range(1, 10)]
    assert [line["curves/train_loss"] for line in lines][:8] == [2 / n for n in range(1, 9)]
    assert json.loads(server.runs["0002-1"]["config"])["adaptlab"]["value"]["status"] == "re-read"
    assert server.summaries["0002-1"]["test/loss"] == 0.25
    assert len(server.runs) == 3


@pytest.mark.long("real W&B")
def test_nothing_is_connected_to(
    real_wandb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "WANDB_BASE_URL"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
        monkeypatch.setenv("WANDB_MODE", "online")
        assert WandbFolder(tmp_path / "runs").send(RUNS) == 3
        sys.modules["wandb"].teardown()  # its process sends what it has when it ends
        with pytest.raises(BlockingIOError):
            proxy.accept()
