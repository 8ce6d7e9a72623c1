"""Canaries in the place of every secret, looked for everywhere."""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest
import redis
from sqlalchemy import make_url
from tests.making import a_pretrain_document, an_adapt_document
from tests.whole.canaries import OTHER, S3_KEY, S3_SECRET, SERVERS
from tests.whole.conftest import PATIENCE

from adaptlab.errors import AdaptlabError
from adaptlab_client import Client
from adaptlab_stack.stack import Stack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
BASE = "birds"
OF_WORKER = {SERVERS["worker"], SERVERS["valkey_worker"]}
CLOSED = {"credentials.json", "stack.json", "token"}
"""Files of the data directory that hold secrets, and are closed to everybody else."""


@pytest.fixture(scope="module")
def birds(stack: Stack) -> tuple[str, ...]:
    """All secrets of the stack; of its token the part that nobody could guess."""
    return (
        *SERVERS.values(),
        S3_KEY,
        S3_SECRET,
        OTHER,
        stack.token.rpartition("_")[0] or stack.token,
    )


@pytest.fixture(scope="module")
def lived(stack: Stack, client: Client) -> Stack:
    """The stack after work, mistakes, and a time without its database."""
    made = client.jobs.wait(client.jobs.submit(a_pretrain_document(name=BASE)).id, timeout=PATIENCE)
    assert made.succeeded, made.error
    adaptation = an_adapt_document(base_model=BASE)
    taken = [client.jobs.submit(adaptation)]
    client.jobs.wait(taken[0].id, timeout=PATIENCE)
    for spec in (an_adapt_document(base_model="nobody"), an_adapt_document(method="lorra")):
        with suppress(AdaptlabError):
            client.jobs.submit(spec)
    diverging = {
        **adaptation,
        "method": "full_finetuning",
        "budget": {},
        "training": {"steps": 300, "batch_size": 4, "learning_rate": 10, "weight_decay": 10},
    }
    client.jobs.wait(client.jobs.submit(diverging).id, timeout=PATIENCE)
    for token in ("x", "wrong", f"{stack.token}x"):
        headers = {"Authorization": f"Bearer {token}"}
        httpx.get(f"{stack.url}/v1/jobs", headers=headers, timeout=60)
    httpx.get(f"{stack.url}/v1/jobs", params={"token": stack.token}, timeout=60)
    for name in ("valkey", "postgres"):
        os.kill(stack.processes[name].pid, signal.SIGKILL)
        for _ in range(5):
            with suppress(AdaptlabError):
                taken.append(client.jobs.submit(adaptation))
    os.kill(stack.processes["worker"].pid, signal.SIGKILL)
    taken.append(client.jobs.submit(adaptation))
    for job in taken:  # also those that were taken while the servers were killed
        client.jobs.wait(job.id, timeout=PATIENCE)
    return stack


def hits(birds: tuple[str, ...], told: Mapping[str, str]) -> list[str]:
    """The places of each canary; `told` are the texts by place."""
    return [f"{bird} in {place}" for place, text in told.items() for bird in birds if bird in text]


def logs(stack: Stack) -> dict[str, str]:
    return {
        str(file): file.read_text(errors="replace") for file in (stack.data_dir / "logs").iterdir()
    }


def rows(stack: Stack) -> dict[str, str]:
    """Every row of every table as text, and what the server says that it runs."""
    url = make_url(stack.database_url).set(drivername="postgresql")
    found: dict[str, str] = {}
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        tables = connection.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for (table,) in [*tables, ("pg_stat_activity",), ("pg_settings",)]:
            texts = connection.execute(f"SELECT t::text FROM {table} t".encode()).fetchall()
            found[table] = "\n".join(str(text) for (text,) in texts)
    return found


def answers(stack: Stack) -> dict[str, str]:
    """What the API says at all addresses without an id, and of jobs."""
    with httpx.Client(base_url=stack.url, headers=_bearer(stack), timeout=120) as client:
        description = client.get("/openapi.json").json()
        plain = [path for path, methods in description["paths"].items() if "get" in methods]
        places = [path for path in plain if "{" not in path]
        jobs = [job["id"] for job in client.get("/v1/jobs?page_size=16").json()["data"]]
        of_jobs = [path for path in plain if path.startswith("/v1/jobs/{") and path.count("{") == 1]
        places += [
            path.replace(path[path.index("{") : path.index("}") + 1], job)
            for path in of_jobs
            for job in jobs
            if "stream" not in path
        ]
        wrong = {"/v1/jobs?page_size=x", "/v1/jobs?filter=('", "/nowhere", "/v1/jobs/1"}
        return {place: _whole(client.get(place)) for place in {*places, *wrong, "/", "/jobs"}}


def _whole(answer: httpx.Response) -> str:
    return f"{answer.headers} {answer.text}"


def _bearer(stack: Stack) -> dict[str, str]:
    return {"Authorization": f"Bearer {stack.token}"}


def messages(stack: Stack) -> dict[str, str]:
    """Every key of the broker with its values, after an untaken message."""
    found: dict[str, str] = {}
    with redis.Redis.from_url(stack.broker_url) as client:
        for key in client.keys("*"):
            found[repr(key)] = repr((key, client.dump(key)))
        found["clients"] = repr(client.client_list())
    return found


def arguments() -> dict[str, str]:
    """The arguments of every process on this machine."""
    found: dict[str, str] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            found[f"the arguments of {process.pid}"] = " ".join(process.cmdline())
    return found


def trainers(stack: Stack) -> dict[str, str]:
    """The environment of every trainer, with its arguments."""
    found: dict[str, str] = {}
    for process in psutil.Process(stack.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "adaptlab_worker.trainer.trainer" in process.cmdline():
                try:
                    found[f"trainer {process.pid}"] = json.dumps(process.environ())
                except psutil.AccessDenied:  # none but root may look into a trainer
                    found[f"trainer {process.pid}"] = "closed"
    assert found, "there is no trainer to look at"
    return found


def files(stack: Stack) -> dict[str, str]:
    """What lies open in the data directory."""
    found: dict[str, str] = {}
    for folder, inner, names in os.walk(stack.data_dir):  # which passes over what ends meanwhile
        if "postgres" in inner:
            inner.remove("postgres")
        for file in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):
                if file.name in CLOSED:
                    assert file.stat().st_mode & 0o077 == 0, f"{file} is open to others"
                elif file.is_file():
                    found[str(file)] = file.read_bytes().decode("latin-1")
    assert found, "something lies there"
    return found


PLACES: dict[str, Callable[[Stack], dict[str, str]]] = {
    "logs": logs,
    "the database": rows,
    "answers": answers,
    "messages": messages,
    "arguments": lambda _: arguments(),
    "trainers": trainers,
    "files": files,
}


@pytest.mark.long("chaos at length")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_found_outside_its_place(
    lived: Stack, birds: tuple[str, ...], place: str
) -> None:
    told = PLACES[place](lived)
    assert "".join(told.values()), "something was looked at"
    assert hits(birds, told) == []


def test_a_canary_that_flew_would_be_seen(birds: tuple[str, ...]) -> None:
    bird = SERVERS["valkey"]
    told = {"a log": f"cannot connect to redis://:{bird}@localhost", "another": "all is well"}
    assert hits(birds, told) == [f"{bird} in a log"]


def test_the_canaries_are_where_they_belong(stack: Stack) -> None:
    """Else their absence elsewhere would say nothing."""
    assert SERVERS["postgres"] in stack.database_url
    assert SERVERS["valkey"] in stack.broker_url
    worker = psutil.Process(stack.processes["worker"].pid)
    if os.geteuid() == 0:
        environment = json.dumps(worker.environ())
        assert all(bird in environment for bird in (*OF_WORKER, S3_KEY, S3_SECRET, OTHER))
        others = set(SERVERS.values()) - OF_WORKER
        assert not any(bird in environment for bird in others), "its own roles are enough"
