"""What Prometheus gets: the figures, for whom, and from several processes."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import bearer, person
from tests.api.serving import Running, a_server
from tests.making import a_claim, a_job, a_ledger, a_token, a_worker
from tests.nursery import Nursery
from tests.watching import until

from adaptlab_answers.server import GpuLoad, WorkerLoad
from adaptlab_api.app import create_app
from adaptlab_db.tables import Job, Worker
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
Labels = dict[str, str]
GPU = GpuLoad(index=2, name='A "GPU"', memory_bytes=80, memory_used_bytes=60, busy=0.5)
LOAD = WorkerLoad(
    memory_used_bytes=5, machine_memory_bytes=9, machine_memory_available_bytes=3, gpus=(GPU,)
)


def samples(content: str, of: str) -> list[tuple[Labels, float]]:
    """The labels and values of one name in an answer."""
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(content)
        for sample in family.samples
        if sample.name == of
    ]


def value(content: str, of: str, **labels: str) -> float:
    """The one value of a name with these labels among others."""
    (one,) = [v for own, v in samples(content, of) if labels.items() <= own.items()]
    return one


def scraped(client: TestClient | httpx.Client, **headers: str) -> str:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return answer.text


def test_jobs_are_counted_by_queue(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        for _ in range(3):
            a_job(session)
        a_job(session, queue="gpu", state="running")
        hour_ago = {"created_at": func.clock_timestamp() - func.make_interval(0, 0, 0, 0, 1)}
        session.execute(update(Job).where(Job.queue == "cpu").values(hour_ago))
    content = scraped(api)
    assert value(content, "adaptlab_queued_jobs", queue="cpu") == 3
    assert 3600 <= value(content, "adaptlab_oldest_queued_job_age_seconds", queue="cpu") < 4000
    assert value(content, "adaptlab_running_jobs", queue="gpu") == 1
    assert value(content, "adaptlab_oldest_queued_job_age_seconds", queue="gpu") == 0


def test_attempts_and_waits_are_counted(api: TestClient, sessions: Sessions) -> None:
    ledger = a_ledger(sessions)
    with sessions.begin() as session:
        a_job(session)
    ledger.fail(a_claim(ledger), "diverged", "It diverged.", retry=False)
    content = scraped(api)
    ended = value(content, "adaptlab_attempts_total", outcome="failed", reason="diverged")
    assert ended == value(content, "adaptlab_claim_wait_seconds_count", queue="cpu") == 1
    assert value(content, "adaptlab_lost_leases_total") == 0
    assert value(content, "adaptlab_claim_wait_seconds_bucket", le="+Inf") == 1
    buckets = [v for _, v in samples(content, "adaptlab_claim_wait_seconds_bucket")]
    assert buckets == sorted(buckets)


def test_workers_show_their_memory_and_gpus(api: TestClient, sessions: Sessions) -> None:
    ledger = a_ledger(sessions)
    ledger.report_load(a_worker(ledger), LOAD)
    silent, dead = a_worker(ledger), a_worker(ledger)
    ledger.report_load(dead, LOAD)
    with sessions.begin() as session:
        gone = update(Worker).where(Worker.id == dead)
        session.execute(gone.values(stopped_at=func.clock_timestamp()))
    content = scraped(api)
    assert value(content, "adaptlab_worker_memory_used_bytes", host="laptop") == 5
    assert value(content, "adaptlab_worker_machine_memory_available_bytes") == 3
    assert value(content, "adaptlab_worker_gpu_memory_used_bytes", gpu="2", name='A "GPU"') == 60
    assert value(content, "adaptlab_worker_gpu_busy_ratio") == 0.5
    assert value(content, "adaptlab_worker_takes_jobs", worker=str(silent)) == 1
    assert value(content, "adaptlab_queue_workers", queue="cpu") == 2


def test_a_worker_reports_its_load_by_the_api(api: TestClient, sessions: Sessions) -> None:
    registered = {"host": "node", "process_id": 1, "queues": ["cpu"]}
    worker = api.post("/v1/workers", json=registered).json()["id"]
    load = json.loads(LOAD.model_dump_json())
    assert api.post(f"/v1/workers/{worker}/load", json=load).status_code == 204
    assert value(scraped(api), "adaptlab_worker_gpu_memory_bytes", worker=worker) == 80
    for wrong in (
        load | {"memory_used_bytes": -1},
        load | {"gpus": load["gpus"] * 65},
        load | {"gpus": [load["gpus"][0] | {"busy": 50}]},
    ):
        answer = api.post(f"/v1/workers/{worker}/load", json=wrong)
        assert answer.status_code == 422, answer.text


def test_nobody_reports_for_the_worker_of_another(api: TestClient, sessions: Sessions) -> None:
    registered = {"host": "node", "process_id": 1, "queues": ["cpu"]}
    worker = api.post("/v1/workers", json=registered).json()["id"]
    with sessions.begin() as session:
        other = bearer(a_token(session, "other", ("worker",)))
    load = json.loads(LOAD.model_dump_json())
    assert api.post(f"/v1/workers/{worker}/load", json=load, headers=other).status_code == 404
    with sessions.begin() as session:
        reader = bearer(a_token(session, "other", ("read",)))
    assert api.post(f"/v1/workers/{worker}/load", json=load, headers=reader).status_code == 403


def test_requests_are_counted_by_the_template_of_their_route(
    api: TestClient, job: str, base: None
) -> None:
    strangers = [f"/v1/jobs/{uuid4()}", "/v1/secret-project", "/v1/jobs/x/y/z"]
    statuses = [api.get(address).status_code for address in (job, job, *strangers)]
    assert statuses == [200, 200, 404, 404, 404]
    api.get(f"{job}?wait=0.1")
    assert api.request("BREW", "/v1/jobs").status_code == 405
    content = scraped(api)
    route = {"method": "GET", "route": "/v1/jobs/{job_id}"}
    assert value(content, "adaptlab_http_requests_total", **route, status="200") == 3
    assert value(content, "adaptlab_http_requests_total", **route, status="404") == 1
    # Without the long poll.
    assert value(content, "adaptlab_http_request_duration_seconds_count", **route) == 3
    assert value(content, "adaptlab_http_requests_total", route="none", status="404") == 2
    assert value(content, "adaptlab_http_requests_total", method="other", status="405") == 1
    assert "secret-project" not in content
    assert job.rpartition("/")[2] not in content


def test_figures_name_no_project_user_or_job(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        job = a_job(session, owner="grace", project="moonshot", labels={"codename": "apollo"})
    api.get("/v1/jobs?project=moonshot")
    content = scraped(api)
    for word in ("moonshot", "grace", "apollo", str(job), "tiny-sort"):
        assert word not in content, word


@pytest.fixture
def promtool() -> str:
    """Prometheus's own reader of the format."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian's package `prometheus`)")
    return found


def test_prometheus_finds_nothing_wrong_with_the_format(
    api: TestClient, sessions: Sessions, promtool: str, job: str
) -> None:
    ledger = a_ledger(sessions)
    ledger.report_load(a_worker(ledger), LOAD)
    ledger.release(a_claim(ledger), "preempted")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=scraped(api), text=True, capture_output=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_strangers_and_members_get_no_figures(anonymous: TestClient, sessions: Sessions) -> None:
    assert anonymous.get("/metrics").status_code == 401
    for scopes in (("read", "submit", "admin"), ("metrics",)):
        member = person(sessions, "member", {"default": "admin"}, scopes)
        refused = anonymous.get("/metrics", headers=member)
        assert (refused.status_code, "admin of the server" in refused.text) == (403, True)
    with sessions.begin() as session:
        worker = bearer(a_token(session, "ada", ("worker", "read", "submit")))
    assert anonymous.get("/metrics", headers=worker).status_code == 403


def test_a_token_of_prometheus_opens_nothing_else(api: TestClient, sessions: Sessions) -> None:
    made = api.post("/v1/tokens", json={"name": "prometheus", "scopes": ["metrics"]})
    assert made.status_code == 201, made.text
    only = bearer(made.json()["token"])
    assert "adaptlab_info" in scraped(api, **only)
    for address in ("/v1/jobs", "/v1/workers", "/v1/storage", "/v1/audit", "/v1/me", "/"):
        assert api.get(address, headers=only).status_code == 403, address
    document = {"name": "more", "scopes": ["read"]}
    assert api.post("/v1/tokens", json=document, headers=only).status_code == 403


def test_a_token_for_one_project_gets_no_figures(api: TestClient, sessions: Sessions) -> None:
    document = {"name": "narrow", "scopes": ["admin", "metrics"], "project": "default"}
    made = api.post("/v1/tokens", json=document)
    assert made.status_code == 201, made.text
    assert api.get("/metrics", headers=bearer(made.json()["token"])).status_code == 403


@pytest.fixture
def two(
    settings: Settings, token: str, tmp_path: Path, nursery: Nursery
) -> Iterator[tuple[Running, Running]]:
    """Two processes with one data directory, each at an address of its own."""
    with (
        a_server(settings, token, tmp_path / "one.log", nursery=nursery) as one,
        a_server(settings, token, tmp_path / "two.log", nursery=nursery) as other,
    ):
        yield one, other


def listed(client: httpx.Client) -> float:
    route = {"method": "GET", "route": "/v1/methods", "status": "200"}
    return value(scraped(client), "adaptlab_http_requests_total", **route)


def test_processes_add_up_and_one_that_dies_stays_counted(
    settings: Settings,
    token: str,
    tmp_path: Path,
    nursery: Nursery,
    two: tuple[Running, Running],
) -> None:
    one, other = two
    for server, times in ((one, 3), (other, 4)):
        for _ in range(times):
            assert server.client.get("/v1/methods").status_code == 200
    assert listed(one.client) == listed(other.client) == 7
    other.process.kill()
    other.process.wait(60)
    assert listed(one.client) == 7
    with a_server(settings, token, tmp_path / "three.log", nursery=nursery) as third:
        third.client.get("/v1/methods")
        assert listed(one.client) == listed(third.client) == 8
    assert len(list((settings.data_dir / "request-counts").iterdir())) == 2


def configuration(address: str, token: Path) -> str:
    scrape: dict[str, Any] = {
        "job_name": "adaptlab",
        "scrape_interval": "1s",
        "authorization": {"credentials_file": str(token)},
        "static_configs": [{"targets": [address]}],
    }
    return json.dumps({"scrape_configs": [scrape]})  # JSON is YAML


@pytest.fixture
def metrics_token(settings: Settings, api: TestClient, tmp_path: Path) -> Path:
    """A file with the token of a Prometheus."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed (Debian's package `prometheus`)")
    made = api.post("/v1/tokens", json={"name": "prometheus", "scopes": ["metrics"]})
    file = tmp_path / "metrics-token"
    file.write_text(made.json()["token"])
    return file


@contextmanager
def a_prometheus(folder: Path, config: str) -> Iterator[str]:
    """The address of a Prometheus that answers; it chooses the port."""
    (folder / "prometheus.json").write_text(config)
    log = folder / "prometheus.log"
    command = ["prometheus", f"--config.file={folder / 'prometheus.json'}"]
    where = ["--web.listen-address=127.0.0.1:0", f"--storage.tsdb.path={folder / 'prometheus'}"]
    with (
        log.open("wb") as output,
        subprocess.Popen([*command, *where], stdout=output, stderr=output) as process,
    ):
        try:
            listens = re.compile(r'msg="Listening on".*address=(\S+)')
            until(lambda: bool(listens.search(log.read_text())), "an address in its log", 120)
            (address,) = listens.findall(log.read_text())
            # It answers 503 while it reads its storage.
            ready = f"http://{address}/-/ready"
            until(lambda: httpx.get(ready).status_code == 200, "it to be ready", 120)
            yield address
        finally:
            process.terminate()


def asked(address: str, query: str) -> float | None:
    """The first value that Prometheus has for a query, if it has any yet."""
    answer = httpx.get(f"http://{address}/api/v1/query", params={"query": query})
    assert answer.status_code == 200, answer.text
    result = answer.json()["data"]["result"]
    return float(result[0]["value"][1]) if result else None


def test_a_real_prometheus_scrapes_a_real_server(
    settings: Settings,
    sessions: Sessions,
    token: str,
    tmp_path: Path,
    nursery: Nursery,
    metrics_token: Path,
) -> None:
    with sessions.begin() as session:
        a_job(session)
    with a_server(settings, token, tmp_path / "server.log", nursery=nursery) as server:
        config = configuration(server.url.removeprefix("http://"), metrics_token)
        with a_prometheus(tmp_path, config) as address:
            until(lambda: asked(address, "up") == 1.0, "a scrape", 120)
            until(lambda: asked(address, "adaptlab_queued_jobs") == 1.0, "the job", 60)
            until(lambda: asked(address, "scrape_duration_seconds") is not None, "a time", 60)
            route = 'adaptlab_http_requests_total{route="/metrics"}'
            until(lambda: (asked(address, route) or 0) >= 1, "its own requests", 120)


def test_a_database_that_is_away_is_a_problem_and_no_figures(
    settings: Settings, token: str
) -> None:
    gone = settings.model_copy(update={"database_url": "postgresql+psycopg://x@127.0.0.1:9/none"})
    with TestClient(create_app(gone), raise_server_exceptions=False) as client:
        answer = client.get("/metrics", headers=bearer(token))
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:adaptlab:problem:unavailable"
