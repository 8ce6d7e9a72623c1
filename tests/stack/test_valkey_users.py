"""The API's and workers' users in Valkey can do their work only."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from pyrate_limiter import Rate
from redis.exceptions import NoPermissionError
from sqlalchemy import make_url

from adaptlab_api.limits import buckets
from adaptlab_api.limits.buckets import Buckets
from adaptlab_db.rights import PARTS
from adaptlab_services.lifecycle import doorbell
from adaptlab_services.lifecycle.doorbell import ring
from adaptlab_services.settings import Settings
from adaptlab_stack.binaries import find_valkey
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.ports import HeldPort
from adaptlab_stack.process import ProcessSpec
from adaptlab_stack.supervisor import Supervisor
from adaptlab_stack.valkey import EmbeddedValkey
from adaptlab_stack.waiting import Polling
from adaptlab_worker.loop.app import (
    MAINTENANCE_QUEUE,
    celery_app,
    doorbell_queue,
    pending_doorbells,
)

BUCKET = "adaptlab:bucket:writes:1"
DOORBELLS = doorbell_queue("cpu")
EVERYBODYS_REFUSALS: tuple[tuple[str, ...], ...] = (
    *(("KEYS", "*"), ("SCAN", "0"), ("FLUSHALL",), ("FLUSHDB",), ("DBSIZE",), ("MONITOR",)),
    *(("CONFIG", "GET", "*"), ("CONFIG", "SET", "dir", "/tmp"), ("ACL", "LIST"), ("SHUTDOWN",)),
    *(("ACL", "SETUSER", "default", "on", "nopass", "+@all"), ("CLIENT", "LIST"), ("INFO",)),
    *(("REPLICAOF", "10.0.0.1", "6379"), ("BGREWRITEAOF",), ("CLIENT", "KILL", "TYPE", "normal")),
    *(("PUBLISH", "/0.celery.pidbox", "{}"), ("SUBSCRIBE", "x"), ("PSUBSCRIBE", "*")),
    *(("EVAL", "return 1", "0"), ("FUNCTION", "LIST"), ("SAVE",), ("LPUSH", "elsewhere", "x")),
)
REFUSED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "api": (
        *EVERYBODYS_REFUSALS,
        *(("BRPOP", DOORBELLS, "1"), ("LRANGE", DOORBELLS, "0", "-1"), ("DEL", DOORBELLS)),
        *(("LPUSH", MAINTENANCE_QUEUE, "{}"), ("HGET", "unacked", "1"), ("DEL", BUCKET)),
        ("SADD", "_kombu.binding.maintenance", "x"),
    ),
    "worker": (
        *EVERYBODYS_REFUSALS,
        *(("HGET", BUCKET, "tokens"), ("HSET", BUCKET, "tokens", "9"), ("DEL", BUCKET)),
    ),
}


@dataclass(frozen=True)
class Addresses:
    """The broker's addresses, for its owner and each part, with passwords."""

    owner: str
    api: str
    worker: str

    def of(self, part: str) -> str:
        """A part's own address."""
        return str(getattr(self, part))


@contextmanager
def running(process: ProcessSpec, directory: DataDirectory) -> Iterator[None]:
    supervisor = Supervisor(Polling(), directory.log, report=lambda _: None)
    try:
        supervisor.start([process])
        yield
    finally:
        supervisor.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    directory = DataDirectory.open(tmp_path_factory.mktemp("with a space") / "data")
    valkey = EmbeddedValkey.prepare(directory)
    with running(valkey.process(), directory):
        yield Addresses(valkey.url, *(valkey.url_for(part) for part in PARTS))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer limits for doorbells and buckets, as machines stand still."""
    monkeypatch.setattr(doorbell, "SOCKET_SECONDS", 60)
    monkeypatch.setattr(buckets, "ANSWER_SECONDS", 60)


@contextmanager
def nobody_refused(broker: Addresses) -> Iterator[None]:
    """Sees that Valkey refused nothing while the block ran."""
    with redis.Redis.from_url(broker.owner) as owner:
        owner.acl_log_reset()
        yield
        assert owner.acl_log() == []


def settings_of(url: str, tmp_path: Path) -> Settings:
    return Settings(database_url="postgresql://nowhere/none", broker_url=url, data_dir=tmp_path)


def test_who_has_no_password_or_a_wrong_one_may_do_nothing(broker: Addresses) -> None:
    owners = make_url(broker.owner)
    for sign_in in ("", f":{owners.password}@", f"adaptlab_api:{owners.password}@", "lab:x@"):
        address = f"redis://{sign_in}{owners.host}:{owners.port}/0"
        with redis.Redis.from_url(address) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_refused_what_is_not_its_work(broker: Addresses, part: str) -> None:
    with redis.Redis.from_url(broker.of(part)) as client:
        allowed = [command for command in REFUSED[part] if not refuses(client, command)]
        assert allowed == []
        script = client.script_load("return redis.call('LRANGE', KEYS[1], 0, -1)")
        with pytest.raises(redis.ResponseError, match="ACL failure in script"):
            client.evalsha(script, 1, DOORBELLS)
    with redis.Redis.from_url(broker.owner) as owner:
        assert owner.ping()
        for command in REFUSED[part]:  # those that change nothing: of its owner they are taken
            if command[0] in {"KEYS", "DBSIZE", "INFO", "LRANGE", "HGET"}:
                owner.execute_command(*command)


def refuses(client: redis.Redis, command: tuple[str, ...]) -> bool:
    try:
        client.execute_command(*command)
    except NoPermissionError:
        return True
    return False


def test_the_api_rings_and_counts(broker: Addresses) -> None:
    outcomes: list[float] = []

    async def count() -> None:
        counted = Buckets(broker.api)
        rate = Rate(1, 3_600_000, burst=1)
        outcomes.append(await counted.take("writes:7", rate, shared=True))
        outcomes.append(await counted.take("writes:7", rate, shared=True))
        outcomes.append(await counted.look("writes:7", rate, shared=True))
        await counted.close()

    with nobody_refused(broker):
        ring(broker.api, ["cpu", "cpu"])
        # A thread of its own: Playwright leaves a loop running in this one.
        thread = threading.Thread(target=asyncio.run, args=[count()])
        thread.start()
        thread.join()
        with redis.Redis.from_url(broker.owner) as owner:
            assert owner.llen(DOORBELLS) == 2
            assert owner.exists("adaptlab:bucket:writes:7"), "it was counted for all processes"
            owner.delete(DOORBELLS)
    assert outcomes[0] == 0
    assert min(outcomes[1:]) > 0


def test_a_worker_rings_listens_and_puts_back_what_was_not_acknowledged(
    broker: Addresses, tmp_path: Path
) -> None:
    app = celery_app(settings_of(broker.worker, tmp_path))
    with nobody_refused(broker):
        ring(broker.worker, ["cpu"])
        app.send_task("adaptlab.sweep", queue=MAINTENANCE_QUEUE)
        assert pending_doorbells(app, "cpu") == 1
        for deed in (acknowledge, let_time_pass, go_away):
            assert heard(app, deed) == {DOORBELLS, MAINTENANCE_QUEUE}
            assert pending_doorbells(app, "cpu") == (0 if deed is acknowledge else 1)
            if deed is acknowledge:
                ring(broker.worker, ["cpu"])
                app.send_task("adaptlab.sweep", queue=MAINTENANCE_QUEUE)
    app.close()


def heard(app: Celery, deed: Callable[[Any, list[Any]], None]) -> set[str]:
    """Receive the messages, apply `deed`, and return their queues."""
    messages: list[Any] = []
    names = (DOORBELLS, MAINTENANCE_QUEUE)
    connection: Any  # kombu's types leave out that one stands for its channel
    with app.connection_for_read() as connection:
        queues = [app.amqp.queues[name] for name in names]
        with app.amqp.TaskConsumer(
            connection, queues=queues, on_message=messages.append
        ) as hearing:
            while len(messages) < len(names):
                connection.drain_events(timeout=60)
            deed(hearing.channel, messages)
    return {message.delivery_info["routing_key"] for message in messages}


def acknowledge(channel: object, messages: list[Any]) -> None:
    for message in messages:
        message.ack()


def let_time_pass(channel: Any, messages: list[Any]) -> None:
    """Restore unacknowledged messages, as kombu does after an hour."""
    channel.visibility_timeout = -1
    channel.qos.restore_visible(num=10, interval=1)


def go_away(channel: object, messages: list[Any]) -> None:
    """Nothing: the end of the connection puts them back."""


def test_the_broker_of_compose_knows_the_same_users(tmp_path: Path) -> None:
    """`deploy/broker.sh` as in the container, without its entrypoint."""
    repository = Path(__file__).parents[2]
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "valkey-server").symlink_to(find_valkey().path)
    entrypoint = programs / "docker-entrypoint.sh"
    entrypoint.write_text('#!/bin/sh\nexec "$@"\n')
    entrypoint.chmod(0o755)
    directory = DataDirectory.open(tmp_path / "data")
    directory.valkey.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("of the workers")
    held = HeldPort()
    port = held.number
    broker = Addresses(
        "", *(f"redis://adaptlab_{part}:{word}@127.0.0.1:{port}/0" for part, word in WORDS.items())
    )
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "VALKEY_USERS": str(repository / "stack" / "adaptlab_stack" / "valkey_users.acl"),
        "VALKEY_PORT": str(port),
        "VALKEY_API_PASSWORD": WORDS["api"],
        "VALKEY_WORKER_PASSWORD_FILE": str(secret),
    }
    secret.write_text(f"{WORDS['worker']}\n")
    script = str(repository / "deploy" / "broker.sh")
    process = ProcessSpec(
        name="valkey",
        argv=(str(shutil.which("sh")), script),
        environment=environment,
        directory=directory.valkey,
        ready=lambda: answers(broker.api),
    )
    with running(process, directory):
        for part in PARTS:
            with redis.Redis.from_url(broker.of(part)) as client:
                assert client.ping()
                assert [c for c in REFUSED[part] if not refuses(client, c)] == []
        with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
    held = (directory.valkey / "users.acl").read_text()
    assert not any(word in held for word in WORDS.values())
    assert "user lab" not in held
    for missing in ("VALKEY_API_PASSWORD", "VALKEY_WORKER_PASSWORD_FILE"):
        without = {name: value for name, value in environment.items() if name != missing}
        refused = subprocess.run(
            ["sh", script], env=without, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert refused.returncode != 0
        assert missing.removesuffix("_FILE") in refused.stderr


WORDS = {"api": "a-word-of-the-api", "worker": "a-word-of-the-workers"}


def answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as client:
            return bool(client.ping())
    except (redis.ConnectionError, redis.TimeoutError):
        return False
