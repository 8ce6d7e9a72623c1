"""Postgres and Valkey alone: `embedded_servers`."""

import os
import pwd
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import psycopg
import pytest
import redis

from adaptlab_stack import identity as identity_module
from adaptlab_stack.binaries import find_valkey
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.errors import (
    ClusterNotMovable,
    DataDirectoryInUse,
    DirectoryBarred,
    ServerNotFound,
    UserUnknown,
)
from adaptlab_stack.identity import NOBODY
from adaptlab_stack.postgres import WAL_BUFFERS, EmbeddedPostgres
from adaptlab_stack.servers import Servers, embedded_servers
from adaptlab_worker.confinement.own_users import POSTGRES_USERS


def plain(url: str) -> str:
    return url.replace("+psycopg", "")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def said_in(path: Path) -> list[bytes]:
    """A process' command line; none where it has ended since it was found."""
    try:
        return [path.read_bytes()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def test_what_is_written_is_there_after_a_second_start(tmp_path: Path):
    with embedded_servers(tmp_path / "data", durable=False) as servers:
        with psycopg.connect(plain(servers.database_url)) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 'a word' AS word")
        with redis.Redis.from_url(servers.broker_url) as client:
            client.rpush("queue", "a message")
    with embedded_servers(tmp_path / "data", durable=False) as servers:
        with psycopg.connect(plain(servers.database_url)) as connection:
            assert connection.execute("SELECT word FROM kept").fetchall() == [("a word",)]
        with redis.Redis.from_url(servers.broker_url) as client:
            assert client.lrange("queue", 0, -1) == [b"a message"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `running`, which has made it."""
    return tmp_path_factory.mktemp("running") / "data"


@pytest.fixture(scope="module")
def running(data: Path) -> Iterator[Servers]:
    """Servers for tests that only look at them."""
    with embedded_servers(data, durable=False) as servers:
        yield servers


def test_the_database_is_utf8_and_the_role_may_make_more(running: Servers):
    with psycopg.connect(plain(running.database_url), autocommit=True) as connection:
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        assert connection.execute("SHOW wal_buffers").fetchone() == (WAL_BUFFERS,), "for uploads"
        connection.execute("CREATE DATABASE another")


def test_both_servers_refuse_who_has_no_password(running: Servers, data: Path):
    password = DataDirectory(data).credentials().postgres
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(plain(running.database_url).replace(password, "wrong"))
    stranger = redis.Redis(port=int(running.broker_url.rsplit(":", 1)[1].split("/")[0]))
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


@pytest.mark.usefixtures("running")
def test_no_password_stands_in_a_command_line_or_a_readable_file(data: Path):
    assert mode(data / "credentials.json") == 0o600
    settings = [data / "valkey" / name for name in ("valkey.conf", "users.acl")]
    assert [mode(file) for file in settings] == [0o600, 0o600]
    assert mode(data / "postgres") == 0o700
    assert not (data / "postgres.unfinished").exists()
    secrets = asdict(DataDirectory(data).credentials()).values()
    lines = [line for path in Path("/proc").glob("[0-9]*/cmdline") for line in said_in(path)]
    for secret in secrets:
        assert not any(secret.encode() in line for line in lines)
        assert not any(secret in file.read_text() for file in settings)


@pytest.mark.usefixtures("running")
def test_one_directory_serves_one_process(data: Path):
    with (
        pytest.raises(DataDirectoryInUse, match=str(os.getpid())),
        embedded_servers(data, durable=False),
    ):
        pass


def test_a_cluster_of_another_version_is_not_touched(tmp_path: Path):
    directory = DataDirectory.open(tmp_path / "data")
    directory.cluster.mkdir()
    (directory.cluster / "PG_VERSION").write_text("9\n")
    with pytest.raises(ServerNotFound, match="the data directory needs version 9"):
        EmbeddedPostgres.prepare(directory)


def test_a_broker_that_is_too_old_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As Debian 12's, which rejects names in `valkey_users.acl`."""
    old = tmp_path / "redis-server"
    monkeypatch.setenv("PATH", str(tmp_path))
    for version, taken in (("7.0.15", False), ("7.2.0", True)):
        old.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0 bits=64'\n")
        old.chmod(0o755)
        assert (find_valkey().path == old) is taken


def test_an_interrupted_first_start_is_begun_anew(tmp_path: Path):
    leftover = tmp_path / "data" / "postgres.unfinished" / "cluster"
    leftover.mkdir(parents=True)
    (leftover / "PG_VERSION").write_text("18\n")
    with embedded_servers(tmp_path / "data", durable=False) as servers:
        psycopg.connect(plain(servers.database_url)).close()


@pytest.mark.usefixtures("as_root")
def test_a_closed_directory_is_named_when_nothing_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(identity_module, "PASSING_CAPABILITIES", ())
    closed = tmp_path / "closed"
    closed.mkdir()
    tmp_path.chmod(0o700)
    with pytest.raises(DirectoryBarred, match=r"user 60[5-8]\d\d,") as caught:
        EmbeddedPostgres.prepare(DataDirectory.open(closed / "data"))
    named = Path(str(caught.value).split("`chmod o+x '")[1].split("'")[0])
    assert named in (closed / "data").parents
    assert not mode(named) & 0o001


def test_a_user_without_an_entry_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(UserUnknown, match="useradd --uid"):
        EmbeddedPostgres.prepare(DataDirectory.open(tmp_path / "data"))


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("closed", [False, True])
def test_roots_postgres_has_no_power_but_to_pass(open_path: Path, *, closed: bool):
    open_path.chmod(0o700 if closed else 0o755)
    with embedded_servers(open_path / "data", durable=False):
        pid = (open_path / "data" / "postgres" / "postmaster.pid").read_text().split()[0]
        status = dict(
            line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
    (user,) = {int(number) for number in status["Uid"].split()}
    assert user in POSTGRES_USERS
    assert owners_below(open_path / "data" / "postgres") == {user}
    assert status["Groups"].strip() == ""
    # Bit 2 is CAP_DAC_READ_SEARCH <linux/capability.h>.
    assert int(status["CapPrm"], 16) == (1 << 2 if closed else 0)


def owners_below(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


@pytest.mark.long("every migration path")
@pytest.mark.usefixtures("as_root")
def test_an_older_cluster_of_nobody_gets_a_user_of_its_own(
    open_path: Path, initialised_at: Callable[[Path], Path]
):
    data = initialised_at(open_path / "data")
    with (
        embedded_servers(data, durable=False) as servers,
        psycopg.connect(plain(servers.database_url)) as connection,
    ):
        connection.execute("CREATE TABLE kept AS SELECT 'a word' AS word")
    for path in (data / "postgres", *(data / "postgres").rglob("*")):
        os.chown(path, NOBODY, NOBODY)  # as earlier versions left it
    with (
        embedded_servers(data, durable=False) as servers,
        psycopg.connect(plain(servers.database_url)) as connection,
    ):
        assert connection.execute("SELECT word FROM kept").fetchall() == [("a word",)]
    (owner,) = owners_below(data / "postgres")
    assert owner in POSTGRES_USERS


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_no_file_elsewhere_is_given_away_with_an_older_cluster(
    open_path: Path, initialised_at: Callable[[Path], Path], link: str
):
    data, elsewhere = initialised_at(open_path / "data"), open_path / "elsewhere"
    elsewhere.write_text("of root")
    cluster = data / "postgres"
    planted = cluster / "base" / "planted"
    planted.symlink_to(elsewhere) if link == "symbolic" else planted.hardlink_to(elsewhere)
    os.chown(cluster, NOBODY, NOBODY)
    with pytest.raises(ClusterNotMovable, match="planted is a link"):
        EmbeddedPostgres.prepare(DataDirectory.open(data))
    assert elsewhere.stat().st_uid == 0
    assert cluster.stat().st_uid == NOBODY, "the next start looks again"
