"""What the server sends to a lab's own board, when, and how often."""

import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.board_server import ServedBoard, a_board, a_tracker, in_time, send_due
from tests.client.boards import RUNS
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_project, a_study_spec
from tests.patience import nobody_listens
from tests.receiving import open_to_loopback
from tests.watching import until

from adaptlab_db.tables import BaseModel, TrackedStudy, Tracker
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules
from adaptlab_services.trackers import due_studies
from adaptlab_services.trackers.due_studies import Sending, TrackerNotHeld
from adaptlab_services.trackers.tracker_sender import TrackerSender
from adaptlab_services.webhooks.relay import relay

Sessions = sessionmaker[Session]


@pytest.fixture
def board() -> Iterator[ServedBoard]:
    with a_board() as served:
        yield served


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return open_to_loopback(settings)


def a_study(sessions: Sessions, ada: Principal, name: str = "tracked") -> UUID:
    with sessions.begin() as session:
        if not session.scalars(select(BaseModel)).all():
            a_base_model(session)
        spec = a_study_spec(name=name, methods=["lora", "ia3"], budgets=[64], seeds=2)
        return studies.create(session, ada, spec, Rules()).study.id


def end_all(sessions: Sessions) -> None:
    run_all(sessions, lambda spec: Run(right=300 if "lora" in str(spec.method) else 100))


def tracked(sessions: Sessions) -> TrackedStudy:
    with sessions() as session:
        return session.scalars(select(TrackedStudy)).one()


def once(board: ServedBoard) -> dict[str, dict[str, Any]]:
    """The runs by their key, none of which is there twice."""
    runs = [*board.board.runs.values()]
    by_key = {run["tags"]["adaptlab.id"]: run for run in runs}
    assert len(by_key) == len(runs)
    return by_key


def test_a_study_is_sent_as_it_runs_and_ends(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    with sessions.begin() as session:
        a_tracker(session, board.url)
    study = a_study(sessions, ada)
    public = settings.model_copy(update={"public_url": "https://lab.example.org/"})
    assert send_due(sessions, public) == 1
    assert str(study) in once(board), "it has only begun"
    end_all(sessions)
    send_due(sessions, public)
    runs = once(board)
    assert len(runs) == RUNS
    assert tracked(sessions).due_at is None, "it is not sent again"
    whole = runs[str(study)]
    assert "LoRA (75.0 %)" in whole["tags"]["adaptlab.verdict"]
    assert whole["tags"]["adaptlab.url"] == "https://lab.example.org/studies/tracked"
    lora = next(run for run in runs.values() if run["name"].startswith("lora"))
    assert {"test/accuracy", "test/accuracy_low"} <= {name for name, *_ in lora["metrics"]}


def test_what_a_tracker_has_is_not_sent_again(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    with sessions.begin() as session:
        tracker = a_tracker(session, board.url)
    study = a_study(sessions, ada)
    end_all(sessions)
    send_due(sessions, settings)
    before, asked = json.dumps(board.board.runs, default=sorted), len(board.asked)
    assert len(tracked(sessions).sent) == 3, "the jobs"
    with sessions.begin() as session:
        session.get_one(TrackedStudy, (tracker, study)).due_at = session.get_one(
            Tracker, tracker
        ).created_at
    send_due(sessions, settings)
    assert board.asked[asked:].count("runs/log-batch") == 1, "only the study"
    assert json.dumps(board.board.runs, default=sorted) == before


@pytest.mark.parametrize("lost", [1, 3])
def test_an_answer_that_is_lost_doubles_nothing(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal, lost: int
) -> None:
    """As after a kill between the creation of a run and its answer."""
    with sessions.begin() as session:
        a_tracker(session, board.url)
    a_study(sessions, ada)
    end_all(sessions)
    board.board.lost = lost
    for _ in range(lost):
        send_due(sessions, settings)
        assert "does not answer" in str(tracked(sessions).error)
        assert send_due(sessions, settings) == 0, "not again before its time"
        in_time(sessions)
    send_due(sessions, settings)
    assert len(once(board)) == RUNS
    assert (tracked(sessions).due_at, tracked(sessions).error) == (None, None)


def test_a_killed_process_is_replaced_after_its_time_and_records_nothing(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    with sessions.begin() as session:
        a_tracker(session, board.url)
    a_study(sessions, ada)
    end_all(sessions)
    send_due(sessions, settings)
    in_time(sessions)
    with sessions.begin() as session:
        session.scalars(select(TrackedStudy)).one().due_at = tracked_at(session)
    with sessions.begin() as session:
        killed = due_studies.claim(session)
    assert killed is not None
    assert send_due(sessions, settings) == 0, "it may still send"
    in_time(sessions)
    assert send_due(sessions, settings) == 1
    with sessions.begin() as session, pytest.raises(TrackerNotHeld):
        due_studies.hold(session, killed.tracker_id, killed.number)
    with sessions() as session, pytest.raises(TrackerNotHeld):
        due_studies.record(session, killed, Sending({}, None))
    assert len(once(board)) == RUNS


def tracked_at(session: Session) -> Any:
    return session.scalars(select(Tracker.created_at)).one()


def test_what_happens_while_a_study_is_sent_is_sent_too(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    with sessions.begin() as session:
        a_tracker(session, board.url)
    study = a_study(sessions, ada)
    end_all(sessions)
    send_due(sessions, settings)
    with sessions.begin() as session:
        session.scalars(select(TrackedStudy)).one().due_at = tracked_at(session)
    with sessions.begin() as session:
        claimed = due_studies.claim(session)
    assert claimed is not None
    with sessions.begin() as session:
        studies.cancel(session, ada, str(study))
    send_due(sessions, settings)  # relays, and finds the tracker held
    with sessions.begin() as session:
        due_studies.record(session, claimed, Sending(claimed.sent, None))
    assert send_due(sessions, settings) == 1
    assert tracked(sessions).due_at is None


def test_a_tracker_that_refuses_is_asked_more_rarely_and_says_why(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    with sessions.begin() as session:
        tracker = a_tracker(session, board.url)
    a_study(sessions, ada)
    end_all(sessions)
    board.refusals = [503, 403]
    for number, said in ((1, "503: not now"), (2, "403: not now Add the tracker again")):
        send_due(sessions, settings)
        assert said in str(tracked(sessions).error)
        with sessions() as session:
            row = session.get_one(Tracker, tracker)
            assert (row.failures, row.sent_at) == (number, None)
        assert len(board.asked) == number
        in_time(sessions)
    send_due(sessions, settings)
    assert len(once(board)) == RUNS


def test_a_refused_study_does_not_keep_others_waiting(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    with sessions.begin() as session:
        a_tracker(session, board.url)
    both = {a_study(sessions, ada, "first"), a_study(sessions, ada, "second")}
    board.refusals = [400]
    send_due(sessions, settings)
    with sessions.begin() as session:
        session.scalars(select(Tracker)).one().next_attempt_at = tracked_at(session)
        is_refused = TrackedStudy.error.is_not(None)
        refused = session.scalars(select(TrackedStudy.study_id).where(is_refused)).one()
    send_due(sessions, settings)
    assert {str(one) for one in both} & set(once(board)) == {str(one) for one in both - {refused}}


def test_trackers_get_the_studies_of_their_own_projects_alone(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    with nobody_listens() as port, sessions.begin() as session:
        a_project(session, "other")
        elsewhere = a_tracker(session, board.url, "other")
        a_tracker(session, f"http://127.0.0.1:{port}")
    a_study(sessions, ada)
    end_all(sessions)
    send_due(sessions, settings)
    assert board.asked == []
    assert tracked(sessions).tracker_id != elsewhere
    assert "does not answer" in str(tracked(sessions).error)


def test_a_silent_tracker_of_one_project_delays_no_other(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    answered = threading.Event()
    with a_board() as silent:
        silent.before = answered.wait
        with sessions.begin() as session:
            other = a_project(session, "other")
            for number in range(3):
                a_tracker(session, f"{silent.url}/{number}")
            tracker = a_tracker(session, board.url, "other")
        a_study(sessions, ada)
        with sessions.begin() as session, access.inside(session, other):
            a_base_model(session, project="other")
            spec = a_study_spec(methods=["lora"], budgets=[64])
            studies.create(session, ada, spec, Rules())
        with sessions.begin() as session:
            relay(session)
        sender = TrackerSender(sessions, settings, 1.0)
        until(lambda: sender.round() == 1 and len(once(board)) > 0, "the other project's study")
        assert len(silent.asked) == 1, "of one project a study at a time"
        answered.set()
        sender.close()
    with sessions() as session:
        assert session.get_one(Tracker, tracker).sent_at is not None


def test_nothing_is_sent_to_an_address_of_the_house(
    sessions: Sessions, settings: Settings, board: ServedBoard, ada: Principal
) -> None:
    """Even if it was added when that was allowed."""
    with sessions.begin() as session:
        a_tracker(session, board.url)
    a_study(sessions, ada)
    send_due(sessions, settings.model_copy(update={"webhook_networks": ()}))
    assert board.asked == []
    assert "is not a public address" in str(tracked(sessions).error)
