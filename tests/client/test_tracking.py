"""A study on a board: by REST, or in files of TensorBoard and W&B."""

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.boards import RUNS, Board
from tests.client.conftest import Invoke
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_study_document
from tests.patience import nobody_listens
from tests.real_boards import real_mlflow, real_trackio, real_wandb
from tests.wandb_server import wandb_server

from adaptlab.errors import TrackerRefused
from adaptlab_answers.studies import StudyView
from adaptlab_client import Client
from adaptlab_client.trackers.mlflow import MlflowServer
from adaptlab_client.trackers.tensorboard import FILE, TensorBoardFolder
from adaptlab_client.trackers.tracked_runs import tracked_runs
from adaptlab_client.trackers.trackio import TrackioServer

__all__ = ["real_mlflow", "real_trackio", "real_wandb"]  # found here by pytest


@pytest.fixture
def study(client: Client, sessions: sessionmaker[Session]) -> StudyView:
    """Two methods at one budget, all measured."""
    with sessions.begin() as session:
        a_base_model(session)
    document = a_study_document(methods=["lora", "ia3"], budgets=[64], seeds=2, name="tracked")
    made = client.studies.create(document)
    run_all(sessions, lambda spec: Run(right=300 if (spec.method or {})["name"] == "lora" else 100))
    return client.studies.get(made.id)


def test_mlflow_has_each_run_once_below_its_own_after_any_interruption(
    client: Client, study: StudyView
) -> None:
    board = Board()
    sent = MlflowServer("http://board", transport=httpx.MockTransport(board.answer))
    board.lost = 1
    with pytest.raises(TrackerRefused, match="does not answer"):
        sent.send(tracked_runs(client, study))
    assert sent.send(tracked_runs(client, study)) == RUNS
    before = json.dumps(board.runs, default=sorted)
    assert sent.send(tracked_runs(client, study)) == RUNS
    assert json.dumps(board.runs, default=sorted) == before
    by_parent: dict[str, list[str]] = {}
    for run in board.runs.values():
        parent = board.runs.get(run["tags"].get("mlflow.parentRunId", ""), {"name": ""})
        by_parent.setdefault(parent["name"].partition("-")[0], []).append(run["name"])
    assert [len(by_parent[one]) for one in ("", "tracked", "lora", "ia3")] == [1, 3, 2, 2]


def test_a_board_that_wants_credentials_gets_those_of_mlflow_or_says_which(
    client: Client, study: StudyView, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Board()

    def guarded(request: httpx.Request) -> httpx.Response:
        if request.headers.get("authorization") != "Bearer s3cret":
            return httpx.Response(401, text="who is there?")
        return board.answer(request)

    sent = MlflowServer("http://board", transport=httpx.MockTransport(guarded))
    with pytest.raises(TrackerRefused, match=r"401: who is there\? Set MLFLOW_TRACKING_TOKEN"):
        sent.send(tracked_runs(client, study))
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "s3cret")
    assert sent.send(tracked_runs(client, study)) == RUNS


def test_trackio_can_tell_a_log_that_it_has(client: Client, study: StudyView) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"data": None})

    transport = httpx.MockTransport(answer)
    board = TrackioServer("http://board/?write_token=s3cret", transport=transport)
    runs = list(tracked_runs(client, study))
    assert board.send(runs) == board.send(runs) == len([run for run in runs if run.points])
    first, second = asked[: len(asked) // 2], asked[len(asked) // 2 :]
    assert [one.content for one in first] == [one.content for one in second]
    assert {one.headers["x-trackio-write-token"] for one in asked} == {"s3cret"}
    assert {str(one.url) for one in asked} == {"http://board/api/bulk_log"}
    logs = [log for one in first for log in json.loads(one.content)["kwargs"]["logs"]]
    assert len({log["log_id"] for log in logs}) == len(logs)
    assert {run.key for run in runs if run.points} == {
        log["run_id"] for log in logs if log["config"] and log["config"]["_Group"] == study.name
    }


def test_runs_have_the_verdict_the_scores_and_the_settings(
    client: Client, study: StudyView
) -> None:
    whole, *others = tracked_runs(client, study)
    assert "LoRA (75.0 %)" in whole.note
    assert whole.tags["adaptlab.url"] == f"{client.url.rstrip('/')}/studies/tracked"
    lora = next(run for run in others if run.path[-1].startswith("lora"))
    scores = {point.name: point.value for point in lora.points}
    assert scores["test/accuracy"] == 0.75
    assert scores["test/accuracy_low"] < 0.75 < scores["test/accuracy_high"]
    assert (lora.parameters["budget"], lora.tags["adaptlab.verdict"]) == ("64", "unknown")
    seeds = [run for run in others if run.path[:-1] == lora.path]
    assert [run.parameters["seed"] for run in seeds] == ["0", "1"]
    names = {point.name for point in seeds[0].points}
    assert {"curves/train_loss", "test/accuracy"} <= names


def test_event_files_are_read_by_tensorboard_and_replaced(
    client: Client, study: StudyView, tmp_path: Path
) -> None:
    from tensorboard.backend.event_processing import event_accumulator  # slow to import

    for _ in range(2):
        assert TensorBoardFolder(tmp_path).send(tracked_runs(client, study)) == RUNS
    (seed,) = tmp_path.glob("tracked/lora-*/seed-0")
    assert [one.name for one in seed.iterdir()] == [FILE]
    read = event_accumulator.EventAccumulator(str(seed)).Reload()
    (last,) = read.Scalars("test/accuracy")
    assert last.value == pytest.approx(0.75)
    steps = [event.step for event in read.Scalars("curves/train_loss")]
    assert steps == sorted(set(steps))
    assert "learning_rate" in read.Tags()["tensors"]


def test_the_command_says_what_it_wrote_and_why_not(
    invoke: Invoke, study: StudyView, tmp_path: Path
) -> None:
    done = invoke("studies", "track", study.name, "--tensorboard", str(tmp_path / "runs"))
    assert (done.exit_code, f"{RUNS} runs" in done.output) == (0, True)
    with nobody_listens() as port:
        board = f"http://127.0.0.1:{port}"
        nobody = invoke("studies", "track", study.name, "--mlflow", board)
    assert (nobody.exit_code, f"{board} does not answer" in nobody.stderr) == (69, True)
    assert invoke("studies", "track", study.name).exit_code == 2


@pytest.mark.long("real MLflow")
def test_a_real_mlflow_keeps_all_of_it_once(
    client: Client, study: StudyView, real_mlflow: str
) -> None:
    for _ in range(2):
        assert MlflowServer(real_mlflow).send(tracked_runs(client, study)) == RUNS
    asked = {"experiment_ids": ["1"], "max_results": 100}
    found = httpx.post(f"{real_mlflow}/api/2.0/mlflow/runs/search", json=asked).json()["runs"]
    assert len(found) == RUNS
    lora = next(run for run in found if run["info"]["run_name"].startswith("lora"))
    scores = {one["key"]: one["value"] for one in lora["data"]["metrics"]}
    assert math.isclose(scores["test/accuracy"], 0.75)
    assert {run["info"]["status"] for run in found} == {"FINISHED"}


@pytest.mark.long("real Trackio")
def test_a_real_trackio_keeps_all_of_it_once(
    client: Client, study: StudyView, real_trackio: tuple[str, Path]
) -> None:
    address, kept = real_trackio
    board, runs = TrackioServer(address), list(tracked_runs(client, study))
    with_figures = [run for run in runs if run.points]
    for _ in range(2):
        assert board.send(runs) == len(with_figures) == 6
    with closing(sqlite3.connect(kept / "adaptlab.db")) as tables:
        logs = tables.execute("SELECT run_id, step, metrics FROM metrics").fetchall()
        configs = dict(tables.execute("SELECT run_id, config FROM configs").fetchall())
    assert len(logs) == len({(run.key, p.step) for run in runs for p in run.points})
    seed = with_figures[-1]
    found = {step: json.loads(metrics) for key, step, metrics in logs if key == seed.key}
    assert all(found[point.step][point.name] == point.value for point in seed.points)
    assert json.loads(configs[seed.key])["_Group"] == study.name
    with pytest.raises(TrackerRefused, match="write_token is required"):
        TrackioServer(address.partition("?")[0]).send(runs)


@pytest.mark.long("real W&B")
def test_wandb_sync_sends_all_of_it(
    client: Client, study: StudyView, invoke: Invoke, real_wandb: Path, tmp_path: Path
) -> None:
    folder, runs = tmp_path / "runs", list(tracked_runs(client, study))
    done = invoke("studies", "track", study.name, "--wandb", str(folder))
    assert (done.exit_code, f"{RUNS} runs" in done.output) == (0, True)
    with wandb_server(real_wandb, tmp_path / "server") as server:
        server.sync(folder)
    assert set(server.runs) == {run.key.replace("/", "-") for run in runs}
    assert {run["groupName"] for run in server.runs.values()} == {study.name}
    assert "LoRA (75.0 %)" in server.runs[str(study.id)]["notes"]
    lora = next(run for run in runs if run.path[-1].startswith("lora"))
    assert json.loads(server.runs[lora.key]["config"])["budget"]["value"] == 64
    summary = server.summaries[lora.key]
    assert summary["test/accuracy_low"] < summary["test/accuracy"] == 0.75
    seed = next(run for run in runs if run.path[:-1] == lora.path)
    key = seed.key.replace("/", "-")
    lines = [line["curves/train_loss"] for line in server.history[key].values()]
    curve = [point.value for point in seed.points if point.name == "curves/train_loss"]
    assert (len(curve) > 1, lines) == (True, curve)
    assert server.summaries[key]["test/accuracy"] == pytest.approx(0.75)
