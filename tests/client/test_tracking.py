"""A study on a board: MLflow by REST, TensorBoard by event files."""

import json
import math
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.boards import RUNS, Board
from tests.client.conftest import Invoke
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_study_document
from tests.patience import LONG, nobody_listens

from adaptlab_answers.studies import StudyView
from adaptlab_client import Client
from adaptlab_client.errors import TrackerRefused
from adaptlab_client.trackers.mlflow import MlflowServer
from adaptlab_client.trackers.tensorboard import FILE, TensorBoardFolder
from adaptlab_client.trackers.tracked_runs import tracked_runs

REAL = Path(__file__).parents[2] / ".venv/mlflow/bin/mlflow"


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


@pytest.fixture
def real_board(tmp_path: Path) -> Iterator[str]:
    """MLflow's own server, if `make mlflow` has installed it."""
    if not REAL.exists():
        pytest.skip("`make mlflow` installs the server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    store = ("--backend-store-uri", f"sqlite:///{tmp_path / 'board.db'}")
    place = ("--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--workers", "1")
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [REAL, "server", *store, *place],
            stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        )  # fmt: skip
    try:
        waited_for(lambda: httpx.get(f"{address}/health").is_success)
        yield address
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)


def waited_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 2 * LONG
    while True:
        try:
            if holds():
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.long("real MLflow")
def test_a_real_mlflow_keeps_all_of_it_once(
    client: Client, study: StudyView, real_board: str
) -> None:
    for _ in range(2):
        assert MlflowServer(real_board).send(tracked_runs(client, study)) == RUNS
    asked = {"experiment_ids": ["1"], "max_results": 100}
    found = httpx.post(f"{real_board}/api/2.0/mlflow/runs/search", json=asked).json()["runs"]
    assert len(found) == RUNS
    lora = next(run for run in found if run["info"]["run_name"].startswith("lora"))
    scores = {one["key"]: one["value"] for one in lora["data"]["metrics"]}
    assert math.isclose(scores["test/accuracy"], 0.75)
    assert {run["info"]["status"] for run in found} == {"FINISHED"}
