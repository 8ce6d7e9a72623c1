"""Studies sent to a board as they change."""

from pathlib import Path

import httpx
import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.boards import RUNS, Board
from tests.client.conftest import Invoke
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_claim, a_made_up_ledger, a_study_document, an_environment

from adaptlab.runs.events import MetricPoint, Metrics, Started
from adaptlab_client import Client
from adaptlab_client.trackers.following import LONGEST_PAUSE, Following
from adaptlab_client.trackers.mlflow import MlflowServer

INTERVAL = 5.0


class Stopped(Exception):
    """Ends a following."""


@pytest.fixture
def study(client: Client, sessions: sessionmaker[Session]) -> str:
    """A study of two methods, none of which has begun."""
    with sessions.begin() as session:
        a_base_model(session)
    document = a_study_document(methods=["lora", "ia3"], budgets=[64], seeds=2, name="tracked")
    return client.studies.create(document).name


def following(client: Client, board: Board, *names: str) -> tuple[Following, list[str]]:
    said: list[str] = []
    sent = MlflowServer("http://board", transport=httpx.MockTransport(board.answer))
    return Following(client, sent, names, INTERVAL, said.append), said


def test_a_study_is_sent_as_its_jobs_run_and_end(
    client: Client, study: str, sessions: sessionmaker[Session]
) -> None:
    board = Board()
    follower, said = following(client, board)
    assert follower.look() == 1
    assert len(board.runs) == 2, "of the jobs only the base's has begun"
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    points = [
        MetricPoint(replicate=one, name="train_loss", step=1, value=3.0 + one)
        for one in range(len(claim.resolved_spec.seeds) * len(claim.resolved_spec.training.trials))
    ]
    started = Started(environment=an_environment(), replicates=len(points))
    ledger.record(claim, [started, Metrics(points=tuple(points))])
    assert follower.look() == follower.look() == 1
    *_, running = board.runs.values()
    assert "status" not in running, "it has not ended"
    ((name, step, value, _),) = running["metrics"]
    assert (name, step, value) == ("curves/train_loss_now", 1, 3.0 + (len(points) - 1) / 2)
    ledger.fail(claim, "diverged", "The loss is not finite", retry=False)
    run_all(sessions, lambda _: Run(right=300))
    assert [follower.look(), follower.look()] == [1, 0], "what has ended is sent once"
    assert [line.partition(":")[0] for line in said] == [
        f"{study}, running", f"{study}, running", f"{study}, incomplete"
    ]  # fmt: skip


def test_a_board_that_does_not_answer_is_asked_more_rarely_and_then_gets_all(
    client: Client, study: str, sessions: sessionmaker[Session]
) -> None:
    run_all(sessions, lambda _: Run(right=300))
    board = Board()
    board.lost = 9
    follower, said = following(client, board, study)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 11:
            raise Stopped

    with pytest.raises(Stopped):
        follower.run(sleep)
    assert pauses[:8] == [5, 10, 20, 40, 80, 160, 320, LONGEST_PAUSE]
    assert pauses[9:] == [INTERVAL] * 3
    assert "does not answer" in said[0]
    assert said[-1] == f"{study}, succeeded: {RUNS} runs"
    assert len(board.runs) == RUNS


def test_a_deleted_study_is_left_out(client: Client, study: str) -> None:
    follower, _ = following(client, Board())
    listed = list(client.studies.list())
    client.studies.cancel(study)
    client.studies.delete(study)
    follower._studies = lambda: listed
    assert follower.look() == 0


def test_without_a_study_it_has_to_follow(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("studies", "track", "--tensorboard", str(tmp_path))
    assert (done.exit_code, "--follow for all" in done.stderr) == (2, True)
