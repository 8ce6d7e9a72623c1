"""Workers send webhooks when beat asks them to, and survive being killed."""

import threading

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec
from tests.receiving import SECRET, a_webhook, later, outcomes, receiving
from tests.worker.conftest import Processes, wait_until

Sessions = sessionmaker[Session]
OPEN = {"ADAPTLAB_WEBHOOK_NETWORKS": "127.0.0.0/8", "ADAPTLAB_WEBHOOK_HTTP": "allowed"}


@pytest.mark.long("chaos at length")
def test_a_message_of_a_worker_that_was_killed_comes_again_with_its_id(
    sessions: Sessions, processes: Processes
) -> None:
    """The message arrives, and the worker dies before the answer."""
    answered = threading.Event()
    with receiving() as receiver:
        receiver.before = answered.wait
        with sessions.begin() as session:
            a_webhook(session, receiver.url, "job.ended")
            job_id = a_job(session, a_pretrain_spec(seeds=1))
        processes.start("beat")
        first = processes.worker(**OPEN)
        wait_until(lambda: len(receiver.received) == 1, "the message")
        first.kill()
        first.wait()
        answered.set()
        assert outcomes(sessions) == [("job.ended", "pending", 1)]
        later(sessions)  # the five minutes that the killed worker had are over
        processes.worker(**OPEN)
        wait_until(lambda: outcomes(sessions)[0][1] == "delivered", "the record")
    assert outcomes(sessions) == [("job.ended", "delivered", 2)]
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1
    assert all(one.is_signed_with(SECRET) for one in receiver.received)
    assert [one.message["data"]["id"] for one in receiver.received] == [str(job_id)] * 2
