"""A job between creation and end: cancelling it, its events, its progress."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_claim,
    a_job,
    a_study_document,
    a_worker,
    an_adapt_document,
    an_environment,
)
from tests.watching import until

from adaptlab.runs import events
from adaptlab_answers.server import WorkerLoad
from adaptlab_api.answers.feed import Watch
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.events import Pulse

Sessions = sessionmaker[Session]


def types(api: TestClient, job: str, after: int = 0) -> list[str]:
    page = api.get(f"{job}/events", params={"after": after}).json()
    return [event["type"] for event in page["data"]]


def test_a_queued_job_is_cancelled_at_once(api: TestClient, job: str) -> None:
    answer = api.post(f"{job}/cancel")
    assert answer.status_code == 200
    cancelled = answer.json()
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "cancelled_by_user")
    assert cancelled["terminal"] is True
    assert cancelled["finished_at"] is not None
    again = api.post(f"{job}/cancel")
    assert (again.status_code, again.json()) == (200, cancelled)
    assert types(api, job) == ["queued", "cancelled"]


def test_the_worker_of_a_running_job_is_asked_to_stop(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    claim = a_claim(ledger)
    for _ in range(2):
        answer = api.post(f"{job}/cancel")
        assert answer.status_code == 202
        asked = answer.json()
        assert (asked["state"], asked["cancel_requested"]) == ("running", True)
    assert ledger.heartbeat(claim, 1) == "stop"
    ledger.stopped(claim)
    assert api.post(f"{job}/cancel").status_code == 200
    assert types(api, job) == ["queued", "running", "cancel_requested", "cancelled"]


def test_a_job_that_has_ended_stays_as_it_is(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    ledger.finish(a_claim(ledger))
    answer = api.post(f"{job}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")


def test_a_running_job_tells_its_worker_and_progress(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    claim = a_claim(ledger)
    ledger.record(claim, [events.Progress(phase="training", step=1, total=4)])
    running = api.get(job).json()
    assert running["worker"]["host"] == "laptop"
    assert running["attempt"] == 1
    assert running["progress"]["step"] == 1
    assert running["progress"]["total"] == 4
    assert running["progress"]["eta_seconds"] >= 0
    assert running["progress"]["phase"] == "training"
    assert running["queue"]["position"] is None


def test_a_job_that_has_trained_tells_the_progress_of_its_later_phases(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    def progress() -> dict[str, object]:
        found: dict[str, object] = api.get(job).json()["progress"]
        return found

    claim = a_claim(ledger)
    steps = progress()["total"]
    assert isinstance(steps, int)
    ledger.record(claim, [events.Progress(phase="training", step=steps, total=steps)])
    told = {"step": steps, "total": steps, "phase": "evaluating", "eta_seconds": None}
    assert progress() == told | {"phase_done": None, "phase_total": None}, "of an older worker"
    for done, phase in ((0, "evaluating"), (150, "evaluating"), (0, "answering")):
        now = events.Progress.model_validate({"phase": phase, "step": done, "total": 200})
        ledger.heartbeat(claim, steps, now)
        shown = progress()
        assert shown == told | {
            "phase": phase, "phase_done": done, "phase_total": 200,
            "eta_seconds": shown["eta_seconds"],
        }  # fmt: skip
        assert (shown["eta_seconds"] is None) == (not done), "the time left of the phase"
    ledger.release(claim, "preempted")
    a_claim(ledger)
    assert (progress()["phase"], progress()["phase_done"]) == ("training", None)


def test_a_queued_job_tells_its_place(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        jobs = [a_job(session), a_job(session), a_job(session, priority=9)]
        a_job(session, queue="gpu", priority=9)
    places = [api.get(f"/v1/jobs/{job}").json()["queue"]["position"] for job in jobs]
    assert places == [2, 3, 1]


def test_events_are_numbered_and_go_on_after_a_number(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    ledger.finish(a_claim(ledger))
    page = api.get(f"{job}/events").json()
    assert [event["sequence"] for event in page["data"]] == [1, 2, 3]
    assert [event["type"] for event in page["data"]] == ["queued", "running", "succeeded"]
    assert page["data"][0]["data"] == {"by": "ada"}
    assert page["data"][1]["attempt"] == 1
    assert page["terminal"] is True
    assert types(api, job, after=2) == ["succeeded"]
    first = api.get(f"{job}/events", params={"limit": 1}).json()
    assert (len(first["data"]), first["next_after"], first["terminal"]) == (1, 1, False)
    end = api.get(f"{job}/events", params={"after": 3}).json()
    assert (end["data"], end["next_after"], end["terminal"]) == ([], 3, True)


def test_a_job_that_has_not_changed_is_not_sent_again(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    etag = api.get(job).headers["etag"]
    unchanged = api.get(job, headers={"If-None-Match": etag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    a_claim(ledger)
    assert api.get(job, headers={"If-None-Match": etag}).status_code == 200


def test_a_wait_ends_with_its_time_or_at_once(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    assert api.get(f"{job}?wait=0.3").json()["state"] == "queued"
    assert api.get(f"{job}?wait=60&if_state_not=running").json()["state"] == "queued"
    api.post(f"{job}/cancel")
    assert api.get(f"{job}?wait=60").json()["state"] == "cancelled"
    assert api.get(f"{job}?wait=60&if_state_not=cancelled").json()["state"] == "cancelled"
    assert api.get(f"{job}?wait=61").status_code == 422


def test_workers_are_listed(api: TestClient, base: None, ledger: DatabaseLedger) -> None:
    worker = a_worker(ledger, ("cpu", "gpu"))
    (shown,) = api.get("/v1/workers").json()["data"]
    assert UUID(shown["id"]) == worker
    assert (shown["host"], shown["queues"], shown["live"]) == ("laptop", ["cpu", "gpu"], True)
    preview = api.post("/v1/jobs?validate_only=true", json=an_adapt_document())
    assert preview.json()["warnings"] == []


def test_a_preview_warns_of_tf32_on_a_queue_whose_workers_have_no_gpu(
    api: TestClient, base: None, ledger: DatabaseLedger
) -> None:
    def warnings() -> list[str]:
        spec = an_adapt_document(training={"steps": 5, "precision": "tf32"})
        answer = api.post("/v1/jobs?validate_only=true", json=spec).json()
        assert answer["resolved_spec"]["training"]["precision"] == "tf32"
        return answer["warnings"]

    worker, memory = a_worker(ledger), {"memory_used_bytes": 5, "machine_memory_bytes": 9}
    assert warnings() == [], "it has not reported its load"
    card = {"index": 0, "name": "H100", "memory_bytes": 80, "memory_used_bytes": 1, "busy": None}
    told_once = [
        "A live worker of the queue 'cpu' has no NVIDIA GPU. A job with the precision tf32 fails "
        "there; float32 runs everywhere."
    ]
    for gpus in ([], [card]):
        load = {**memory, "machine_memory_available_bytes": 3, "gpus": gpus}
        ledger.report_load(worker, WorkerLoad.model_validate(load))
        assert warnings() == ([] if gpus else told_once)
    ledger.report_load(worker, WorkerLoad.model_validate({**load, "gpus": []}))
    study = a_study_document(training={"steps": 5, "precision": "tf32"})
    answer = api.post("/v1/studies?validate_only=true", json=study).json()
    assert [text for text in answer["warnings"] if "has no NVIDIA GPU" in text] == told_once


def test_a_preview_tells_that_the_same_was_run_before(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    ledger.finish(a_claim(ledger))
    preview = api.post("/v1/jobs?validate_only=true", json=an_adapt_document()).json()
    assert preview["warnings"] == [
        f"Job {job.rpartition('/')[2]} has already run exactly this spec. See its results."
    ]


def test_a_quiet_stream_is_kept_alive(
    api: TestClient, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adaptlab_api.routes.events.HEARTBEAT_SECONDS", 0.05)
    real, passed = Watch.changed, list[bool]()

    async def changed(watch: Watch, known: Pulse | None, timeout: float) -> bool:
        passed.append(await real(watch, known, timeout))
        return passed[-1]

    monkeypatch.setattr(Watch, "changed", changed)
    with ThreadPoolExecutor(1) as pool:
        followed = pool.submit(api.get, f"{job}/events", headers={"Accept": "text/event-stream"})
        try:
            until(lambda: passed.count(False) > 4, "a quiet while")
        finally:
            api.post(f"{job}/cancel")
        stream = followed.result().text
    quiet = stream[stream.index("id: 1") : stream.index("id: 2")]
    assert quiet.count("\n: ping\n") > 3
    assert stream.endswith("\n\n")


def test_a_preview_warns_of_bfloat16_where_a_run_found_it_slower(
    api: TestClient, job: str, ledger: DatabaseLedger
) -> None:
    def warnings(precision: str) -> list[str]:
        spec = an_adapt_document(training={"steps": 5, "precision": precision})
        answer = api.post("/v1/jobs?validate_only=true", json=spec).json()
        study = a_study_document(training={"steps": 5, "precision": precision})
        planned = api.post("/v1/studies?validate_only=true", json=study).json()
        both = (*answer["warnings"], *planned["warnings"])
        return [text for text in both if "bfloat16" in text]

    claim = a_claim(ledger)
    assert warnings("bfloat16") == []
    environment = an_environment(precision="bfloat16", bfloat16_cost=14.0)
    ledger.record(claim, [events.Started(environment=environment, replicates=1)])
    told = (
        "In the latest run of minigpt on the queue 'cpu', a matrix product took 14 times as long "
        "in bfloat16 as in float32. Use the precision float32, or auto, which chooses the faster "
        "one."
    )
    assert warnings("bfloat16") == [told, told]
    assert warnings("auto") == warnings("float32") == []
    shown = api.get(f"{job}/attempts").json()["data"][0]["environment"]
    assert shown["bfloat16_cost"] == 14.0
    page = api.get(job.removeprefix("/v1"), headers={"Accept": "text/html"}).text
    assert "takes 14.0 times as long in bfloat16" in page
