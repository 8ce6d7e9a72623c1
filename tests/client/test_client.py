"""The Python client against the real API on a real database."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address, Invoke
from tests.client.finished import a_finished_job
from tests.making import (
    a_base_model,
    a_claim,
    a_made_up_ledger,
    a_pretrain_document,
    an_adapt_document,
    an_adapt_spec,
    an_attention_map,
    an_environment,
    metric_points,
)

import adaptlab_client
from adaptlab.errors import InvalidSpec
from adaptlab.runs import events as results
from adaptlab_client import Client, EventView, errors
from adaptlab_client.transport.connection import Retries


@pytest.fixture
def base(sessions: sessionmaker[Session]) -> None:
    """A base model that can be adapted."""
    with sessions.begin() as session:
        a_base_model(session)


def test_every_public_name_is_there() -> None:
    for name in adaptlab_client.__all__:
        assert getattr(adaptlab_client, name).__name__ == name
    with pytest.raises(AttributeError, match="magic"):
        adaptlab_client.magic  # noqa: B018 - looking is the test


def test_a_job_is_submitted_looked_at_listed_and_cancelled(client: Client, base: None) -> None:
    job = client.jobs.submit(an_adapt_document(labels={"paper": "table-1"}))
    assert (job.state, job.terminal, job.method) == ("queued", False, "prefix_tuning")
    assert job.budget is not None
    assert job.budget.trainable_parameters == 16
    assert client.jobs.get(job.id).id == job.id
    listed = client.jobs.list(filter='labels.paper = "table-1"')
    assert [found.id for found in listed] == [job.id]
    (summary,) = client.jobs.summaries(filter='labels.paper = "table-1"')
    assert (summary.id, summary.trainable_parameters, summary.labels) == (job.id, 16, job.labels)
    assert not hasattr(summary, "spec")
    assert client.jobs.cancel(job.id).state == "cancelled"
    assert client.jobs.cancel(job.id).terminal


def test_a_typed_spec_is_a_spec(client: Client, base: None) -> None:
    assert client.jobs.submit(an_adapt_spec(seeds=1)).kind == "adapt"
    assert [job.kind for job in client.jobs.list(filter="kind = adapt")] == ["adapt"]


@pytest.mark.parametrize(
    ("value", "pointer"),
    [(float("nan"), "/training/learning_rate"), (float("inf"), "/training/learning_rate")],
)
def test_numbers_that_json_does_not_have_are_refused_before_they_are_sent(
    client: Client, value: float, pointer: str
) -> None:
    with pytest.raises(InvalidSpec, match=pointer):
        client.jobs.submit(an_adapt_document(training={"learning_rate": value}))


def test_what_is_not_there_is_not_found(client: Client) -> None:
    missing = "00000000-0000-7000-8000-000000000000"
    calls: list[Callable[[], object]] = [
        lambda: client.jobs.get(missing),
        lambda: client.jobs.metrics(missing),
        lambda: client.base_models.get("nobody"),
        lambda: client.methods.get("magic"),
        lambda: client.checkpoints.download(999, Path("never")),
        lambda: next(client.jobs.events(missing)),
    ]
    for call in calls:
        with pytest.raises(errors.NotFound):
            call()


def test_a_server_that_is_gone_is_unreachable_and_a_wrong_token_unauthorised(
    address: Address,
) -> None:
    with Client(address.url, "al_wrong") as stranger, pytest.raises(errors.Unauthorised):
        stranger.jobs.get("x")
    gone = Client("http://127.0.0.1:9", "t", retries=Retries(attempts=1))
    with gone, pytest.raises(errors.ServerUnreachable, match=r"127\.0\.0\.1:9"):
        gone.jobs.get("x")


def test_a_name_that_is_taken_is_a_conflict(client: Client, base: None) -> None:
    with pytest.raises(errors.Conflict):
        client.jobs.submit(a_pretrain_document(seeds=1))


def test_results_come_back(
    client: Client, sessions: sessionmaker[Session], base: None, tmp_path: Path
) -> None:
    job_id, patterns = a_finished_job(client, sessions, tmp_path)
    assert client.jobs.wait(job_id, timeout=60).succeeded
    (curve,) = client.jobs.metrics(job_id, names=["train_loss"])
    assert curve.points() == metric_points()
    assert client.jobs.metrics(job_id, names=["nothing"]) == ()
    scores = client.jobs.evaluations(job_id)
    assert [(e.accuracy, e.attached) for e in scores] == [
        (0.75, True), (0.5, True), (0.0, False), (0.25, False),
    ]  # fmt: skip
    for attached in (True, False):
        asked = client.jobs.evaluations(job_id, attached=attached)
        assert asked == tuple(e for e in scores if e.attached is attached)
    assert [r.status for r in client.jobs.replicates(job_id)] == ["completed"] * 2
    assert [a.outcome for a in client.jobs.attempts(job_id)] == ["succeeded"]
    (recorded,) = client.jobs.attention(job_id, layer=0, head=0)
    assert recorded.summaries[0].learned_mass == 0.5
    np.testing.assert_array_equal(client.jobs.attention_array(job_id, recorded), patterns)


def test_events_are_followed_to_the_end(
    client: Client, sessions: sessionmaker[Session], base: None, tmp_path: Path
) -> None:
    job_id, _ = a_finished_job(client, sessions, tmp_path)
    events = list(client.jobs.events(job_id))
    numbered = [event for event in events if isinstance(event, EventView)]
    assert [event.sequence for event in numbered] == list(range(1, len(numbered) + 1))
    assert numbered[0].type == "queued"
    assert numbered[-1].type == "succeeded"
    later = client.jobs.events(job_id, after=2)
    assert [event.sequence for event in later if isinstance(event, EventView)] == [
        event.sequence for event in numbered[2:]
    ]


def test_a_wait_sees_the_end_of_a_job_that_is_cancelled_meanwhile(
    client: Client, address: Address, base: None
) -> None:
    job = client.jobs.submit(an_adapt_document())
    waiting = threading.Event()

    def cancel() -> None:
        waiting.wait(60)
        with Client(*address) as other:
            other.jobs.cancel(job.id)

    thread = threading.Thread(target=cancel)
    thread.start()
    found = client.jobs.wait(job.id, timeout=60, on_progress=lambda _: waiting.set())
    thread.join(60)
    assert (found.state, found.succeeded) == ("cancelled", False)


def test_a_wait_that_takes_too_long_ends_and_shows_where_the_job_is(
    client: Client, base: None, capsys: pytest.CaptureFixture[str]
) -> None:
    job = client.jobs.submit(an_adapt_document())
    with pytest.raises(errors.WaitTimedOut):
        client.jobs.wait(job.id, timeout=0.2, progress=True)
    assert "queued, position 1 in the queue cpu\n" in capsys.readouterr().err


def a_tuned_job(client: Client, sessions: sessionmaker[Session], folder: Path) -> str:
    """A job of two seeds and three trials; replicates 2 and 5 were chosen."""
    job = client.jobs.submit(an_adapt_document(seeds=[7, 9], tuning={"trials": 3}))
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    path = folder / "map.npy"
    np.save(path, np.full((1, 1, 1, 5, 7), 0.1, dtype=np.float16), allow_pickle=False)
    stored = {path: ledger.put_artifact(claim, [path.read_bytes()]).sha256}
    captured = (
        results.AttentionCaptured(attention=an_attention_map(number, seed=seed), path=path)
        for number, seed in ((5, 9), (2, 7))
    )
    started = results.Started(environment=an_environment(), replicates=6)
    ledger.record(claim, [started, *captured], stored)
    ledger.finish(claim)
    return str(job.id)


@pytest.mark.long("walks through commands and documents")
def test_a_picture_of_a_tuned_job_is_of_the_first_recorded_seed(
    client: Client, sessions: sessionmaker[Session], base: None, invoke: Invoke, tmp_path: Path
) -> None:
    job = a_tuned_job(client, sessions, tmp_path)
    picture = tmp_path / "map.png"
    done = invoke("attention", job[-8:], "--png", str(picture))
    assert done.exit_code == 0, done.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    chart = tmp_path / "map.json"
    assert invoke("attention", job, "--vega-lite", str(chart)).exit_code == 0
    assert "seed 7" in chart.read_text()
    assert invoke("attention", job, "--seed", "9", "--vega-lite", str(chart)).exit_code == 0
    assert "seed 9" in chart.read_text()
    done = invoke("attention", job, "--png", str(picture), "--seed", "0")
    assert done.exit_code == 2
    assert "no attention for seed 0. Recorded seeds: 7 (replicate 2), 9 (replicate 5)" in (
        done.stderr
    )
