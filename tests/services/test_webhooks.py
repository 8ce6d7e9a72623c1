"""Webhooks: what is sent, when, how often, and where it never goes."""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_job, a_project, a_study_spec
from tests.receiving import (
    SECRET,
    Receiver,
    a_webhook,
    deliver,
    later,
    open_to_loopback,
    outcomes,
    receiving,
)
from tests.watching import until

from adaptlab_db.tables import Job, WebhookDelivery, WebhookEvent, Worker
from adaptlab_services.leases import reaping
from adaptlab_services.lifecycle import workers
from adaptlab_services.lifecycle.transitions import transition
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules
from adaptlab_services.webhooks import due_deliveries as claims
from adaptlab_services.webhooks import sending
from adaptlab_services.webhooks.due_deliveries import DELAYS, MOST_ATTEMPTS
from adaptlab_services.webhooks.signing import new_secret
from adaptlab_stack.ports import HeldPort

Sessions = sessionmaker[Session]
PAGE = Path(__file__).parents[2] / "docs/how-to/receive-webhooks.md"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as opened:
        yield opened


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return open_to_loopback(settings)


def end_job(sessions: Sessions, state: str = "succeeded", project: str = "default") -> UUID:
    """A job that ends now, as a worker ends it."""
    with sessions.begin() as session:
        job_id = a_job(session, state="running", project=project)
    with sessions.begin() as session:
        assert transition(session, job_id, to=state, from_states=["running"])  # pyright: ignore[reportArgumentType]
    return job_id


def errors(sessions: Sessions) -> list[str | None]:
    with sessions() as session:
        return list(session.scalars(select(WebhookDelivery.error)))


def test_the_end_of_a_job_arrives_signed(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url)
    job_id = end_job(sessions)
    deliver(sessions, settings)
    (arrived,) = receiver.received
    assert arrived.path == "/hook"
    assert arrived.is_signed_with(SECRET)
    assert not arrived.is_signed_with(new_secret())
    assert arrived.message["type"] == "job.ended"
    data = arrived.message["data"]
    assert (data["id"], data["state"], data["project"]) == (str(job_id), "succeeded", "default")
    assert outcomes(sessions) == [("job.ended", "delivered", 1)]


def test_no_message_is_sent_for_what_was_not_committed(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url)
        job_id = a_job(session, state="running")
    with sessions() as session:
        assert transition(session, job_id, to="succeeded", from_states=["running"])
        assert session.scalars(select(WebhookEvent.job_id)).all() == [job_id]
        session.rollback()
    deliver(sessions, settings)
    assert receiver.received == []
    assert outcomes(sessions) == []


@pytest.mark.parametrize(
    "columns", [{"events": ["study.ended"]}, {"enabled": False}, {"project": True}]
)
def test_only_what_a_webhook_asks_for_is_sent(
    sessions: Sessions, settings: Settings, receiver: Receiver, columns: dict[str, object]
) -> None:
    """Not of other events, of other projects, or to a disabled one."""
    with sessions.begin() as session:
        webhook = a_webhook(session, receiver.url)
        if columns.pop("project", None):
            session.execute(text("INSERT INTO projects (name) VALUES ('elsewhere')"))
            session.execute(text("UPDATE webhooks SET project_id = (SELECT max(id) FROM projects)"))
        for name, value in columns.items():
            session.execute(
                text(f"UPDATE webhooks SET {name} = :v WHERE id = {webhook}"), {"v": value}
            )
    end_job(sessions)
    deliver(sessions, settings)
    assert receiver.received == []
    assert outcomes(sessions) == []


def test_two_projects_whose_jobs_end_together_hear_of_their_own(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        for name in ("default", "other"):
            a_webhook(session, f"{receiver.url}/{name}", project_id=a_project(session, name))
    for name in ("default", "other"):
        end_job(sessions, project=name)
    deliver(sessions, settings)
    heard = sorted((one.path, one.message["data"]["project"]) for one in receiver.received)
    assert heard == [("/hook/default", "default"), ("/hook/other", "other")]


def test_a_failed_attempt_is_repeated_with_the_same_id(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url)
    receiver.answers = [500, 404]
    end_job(sessions)
    for expected in (1, 2):
        deliver(sessions, settings)  # not again before its time
        assert outcomes(sessions) == [("job.ended", "pending", expected)]
        assert errors(sessions) == [f"The receiver answered {500 if expected == 1 else 404}."]
        later(sessions)
    deliver(sessions, settings)
    assert outcomes(sessions) == [("job.ended", "delivered", 3)]
    assert len(receiver.ids) == 3
    assert len(set(receiver.ids)) == 1
    assert all(one.is_signed_with(SECRET) for one in receiver.received)


def test_after_the_last_attempt_a_message_has_failed(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url)
    receiver.answers = [503] * (MOST_ATTEMPTS + 1)
    end_job(sessions)
    for _ in range(MOST_ATTEMPTS + 2):
        deliver(sessions, settings)
        later(sessions)
    assert outcomes(sessions) == [("job.ended", "failed", MOST_ATTEMPTS)]
    assert len(receiver.received) == MOST_ATTEMPTS


def test_pauses_grow_and_are_not_equal() -> None:
    seconds = [[DELAYS.after(n).total_seconds() for _ in range(20)] for n in range(1, 10)]
    for number, pauses in enumerate(seconds):
        longest = min(10 * 4**number, 6 * 3600)
        assert longest / 2 <= min(pauses) <= max(pauses) <= longest
        assert len(set(pauses)) > 1


def test_a_receiver_that_says_nothing_is_given_up(
    sessions: Sessions, settings: Settings, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TOTAL_SECONDS", 0.2)
    release = threading.Event()
    receiver.before = release.wait
    with sessions.begin() as session:
        a_webhook(session, receiver.url)
    end_job(sessions)
    deliver(sessions, settings)
    release.set()
    assert errors(sessions) == ["The receiver did not answer within 0.2 s."]
    assert outcomes(sessions) == [("job.ended", "pending", 1)]


def test_a_message_whose_outcome_was_lost_comes_again_with_its_id(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    """As after a kill between the answer and its record."""
    with sessions.begin() as session:
        a_webhook(session, receiver.url)
    end_job(sessions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims, "record", lambda *_: None)  # pyright: ignore[reportUnknownLambdaType]
        deliver(sessions, settings)
    deliver(sessions, settings)  # another worker leaves it alone for some minutes
    assert len(receiver.ids) == 1
    later(sessions)
    deliver(sessions, settings)
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1
    assert outcomes(sessions) == [("job.ended", "delivered", 2)]


def test_two_workers_at_once_send_each_message_once(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url)
    for _ in range(12):
        end_job(sessions)
    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(deliver, sessions, settings) for _ in range(3)]:
            done.result()
    assert len(receiver.ids) == 12
    assert len(set(receiver.ids)) == 12


def a_study(sessions: Sessions, ada: Principal) -> UUID:
    with sessions.begin() as session:
        a_base_model(session)
        spec = a_study_spec(methods=["lora", "prefix_tuning"], budgets=[64])
        return studies.create(session, ada, spec, Rules()).study.id


def test_the_end_of_a_study_arrives_once_with_its_verdict(
    sessions: Sessions, settings: Settings, receiver: Receiver, ada: Principal
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url, "study.ended")
    study_id = a_study(sessions, ada)
    deliver(sessions, settings)
    assert receiver.received == []
    run_all(sessions, lambda spec: Run(right=380 if "lora" in str(spec.method) else 0))
    deliver(sessions, settings)
    (arrived,) = receiver.received
    data = arrived.message["data"]
    assert (arrived.message["type"], data["id"], data["state"]) == (
        "study.ended",
        str(study_id),
        "succeeded",
    )
    (found,) = data["verdicts"]
    assert found["verdict"].startswith("At up to 64 trained parameters, LoRA (95.0 %) works")


def test_slack_gets_the_verdict_as_text(
    sessions: Sessions, settings: Settings, receiver: Receiver, ada: Principal
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url, "study.ended", format="slack")
    study_id = a_study(sessions, ada)
    run_all(sessions, lambda spec: Run(right=380 if "lora" in str(spec.method) else 0))
    deliver(sessions, settings.model_copy(update={"public_url": "https://lab.example.org/"}))
    (arrived,) = receiver.received
    assert set(arrived.message) == {"text"}
    head, finding = arrived.message["text"].split("\n")
    link = f"<https://lab.example.org/studies/{study_id}|small>"
    assert head == f"Study {link} in default: succeeded (3 succeeded)."
    assert finding.startswith("sort_descending(length=3, alphabet=4) on tiny-sort: At up to 64 ")


def test_a_study_whose_last_two_jobs_end_at_once_is_reported(
    sessions: Sessions, settings: Settings, receiver: Receiver, ada: Principal
) -> None:
    """Neither transaction sees the end of the other's job."""
    with sessions.begin() as session:
        a_webhook(session, receiver.url, "study.ended")
    a_study(sessions, ada)
    with sessions() as session:
        first, *others = session.scalars(select(Job.id).where(Job.state == "queued")).all()
    with sessions() as one, sessions() as other:
        assert transition(one, first, to="cancelled", from_states=["queued"])
        for job_id in others:
            assert transition(other, job_id, to="cancelled", from_states=["queued"])
        one.commit()
        deliver(sessions, settings)
        assert receiver.received == []
        other.commit()
    deliver(sessions, settings)
    assert [one.message["data"]["state"] for one in receiver.received] == ["incomplete"]


def test_a_study_that_reuses_everything_ends_when_it_is_created(
    sessions: Sessions, settings: Settings, receiver: Receiver, ada: Principal
) -> None:
    a_study(sessions, ada)
    run_all(sessions, lambda _: Run(right=300))
    with sessions.begin() as session:
        a_webhook(session, receiver.url, "study.ended")
    with sessions.begin() as session:
        spec = a_study_spec(name="again", methods=["lora", "prefix_tuning"], budgets=[64])
        studies.create(session, ada, spec, Rules())
    with sessions.begin() as session:
        studies.cancel(session, ada, "again")
    deliver(sessions, settings)
    assert [one.message["data"]["state"] for one in receiver.received] == ["cancelled"]


def test_a_lost_worker_is_reported_with_the_projects_jobs_once(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url, "worker.lost")
        worker = workers.register(session, "gpu-7", 4711, ["cpu"])
        ago = func.clock_timestamp() - timedelta(seconds=90)
        job_id = a_job(session, state="running", worker_id=worker)
        session.execute(text("UPDATE attempts SET worker_id = :w"), {"w": worker})
        session.execute(update(Job).where(Job.id == job_id).values(lease_expires_at=ago))
        session.execute(update(Worker).where(Worker.id == worker).values(heartbeat_at=ago))
    for lost in (1, 0):
        with sessions.begin() as session:
            assert reaping.reap(session).lost_workers == lost
        deliver(sessions, settings)
    (arrived,) = receiver.received
    data = arrived.message["data"]
    assert (data["host"], data["process_id"], data["jobs"]) == ("gpu-7", 4711, [str(job_id)])


def test_a_worker_that_stopped_or_lives_is_not_lost(sessions: Sessions) -> None:
    with sessions.begin() as session:
        stopped = workers.register(session, "one", 1, ["cpu"])
        workers.register(session, "two", 2, ["cpu"])
        ago = func.clock_timestamp() - timedelta(seconds=90)
        session.execute(update(Worker).where(Worker.id == stopped).values(heartbeat_at=ago))
        workers.stop(session, stopped)
    with sessions.begin() as session:
        assert workers.note_lost(session) == ()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/hook",
        "http://localhost:{port}/hook",
        "http://[::ffff:127.0.0.1]:{port}/hook",
        "http://2130706433:{port}/hook",
        "http://0x7f.1:{port}/hook",
        "http://0.0.0.0:{port}/hook",
    ],
)
def test_nothing_is_sent_to_an_address_of_the_house(
    sessions: Sessions, settings: Settings, receiver: Receiver, url: str
) -> None:
    """Even if it was registered when that was allowed."""
    address = url.format(port=receiver.url.split(":")[2].split("/")[0])
    closed = settings.model_copy(update={"webhook_networks": ()})
    with sessions.begin() as session:
        a_webhook(session, address)
    end_job(sessions)
    deliver(sessions, closed)
    assert receiver.received == []
    assert outcomes(sessions) == [("job.ended", "pending", 1)]
    (error,) = errors(sessions)
    assert "is not a public address" in str(error)


def test_a_name_is_resolved_once_and_its_address_connected_to(
    sessions: Sessions, settings: Settings, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that would lead elsewhere the second time leads nowhere."""
    port = receiver.url.split(":")[2].split("/")[0]
    asked: list[str] = []
    plain = socket.getaddrinfo

    def rebinding(host: str, place: int | None, *rest: int, **more: int) -> object:
        if host != "rebinding.example.org" or more.get("flags") == socket.AI_NUMERICHOST:
            return plain(host, place, *rest, **more)
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "10.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, int(port)))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with sessions.begin() as session:
        a_webhook(session, f"http://rebinding.example.org:{port}/hook")
    end_job(sessions)
    deliver(sessions, settings)
    assert len(asked) == 1
    assert receiver.received[0].headers["host"] == f"rebinding.example.org:{port}"


def test_a_redirect_is_not_followed(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    receiver.answers, receiver.location = [307], receiver.url
    with sessions.begin() as session:
        a_webhook(session, receiver.url)
    end_job(sessions)
    deliver(sessions, settings)
    assert len(receiver.received) == 1
    assert errors(sessions) == ["The receiver answered 307. Redirects are not followed."]


def test_slack_finds_no_links_and_no_mentions_in_names(
    sessions: Sessions, settings: Settings, receiver: Receiver
) -> None:
    with sessions.begin() as session:
        a_webhook(session, receiver.url, "job.ended", format="slack")
        job_id = a_job(session, state="running")
    with sessions.begin() as session:
        assert transition(
            session, job_id, to="failed", from_states=["running"], error="<!channel> & co"
        )
    deliver(sessions, settings)
    said = receiver.received[0].message["text"]
    assert "&lt;!channel&gt; &amp; co" in said
    assert "<" not in said


def test_the_receiver_of_the_documentation_accepts_and_refuses(
    sessions: Sessions, settings: Settings, tmp_path: Path
) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    held = HeldPort()
    port = held.number
    code = found[1].replace("8000", str(port))
    assert str(port) in code
    environment = os.environ | {"WEBHOOK_SECRET": SECRET}
    with (
        (tmp_path / "said").open("wb") as said,
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=said) as process,
    ):
        try:
            until(lambda: is_open(port), "the receiver")
            with sessions.begin() as session:
                a_webhook(session, f"http://127.0.0.1:{port}/")
                a_webhook(session, f"http://127.0.0.1:{port}/", secret=new_secret())
            job_id = end_job(sessions)
            deliver(sessions, settings)
        finally:
            process.kill()
    assert set(errors(sessions)) == {None, "The receiver answered 401."}
    assert str(job_id) in (tmp_path / "said").read_text()


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
