"""How the client finds the server, and which token it may take there."""

import json
import os
from pathlib import Path

import pytest

from adaptlab_client.errors import NoServer, ServerStarting
from adaptlab_client.transport.credentials import keep
from adaptlab_client.transport.discovery import discover
from adaptlab_client.transport.last_server import record_of


def a_data_directory(folder: Path, url: str | None = "http://127.0.0.1:8123") -> Path:
    folder.mkdir(parents=True)
    if url is not None:
        (folder / "server.json").write_text(json.dumps({"url": url, "pid": 1}))
    (folder / "token").write_text("al_from_file\n")
    return folder


def test_arguments_come_before_the_environment_and_the_files(tmp_path: Path) -> None:
    a_data_directory(tmp_path / ".adaptlab")
    environment = {"ADAPTLAB_URL": "http://b", "ADAPTLAB_TOKEN": "tb", "HOME": "/nowhere"}
    assert discover("http://a/", "ta", environment=environment, start=tmp_path) == (
        "http://a",
        "ta",
    )
    assert discover(environment=environment, start=tmp_path) == ("http://b", "tb")
    found = discover(environment={"HOME": "/nowhere"}, start=tmp_path)
    assert found == ("http://127.0.0.1:8123", "al_from_file")


def test_the_data_directory_of_a_parent_and_of_the_home_is_found(tmp_path: Path) -> None:
    a_data_directory(tmp_path / "project" / ".adaptlab", "http://parent")
    a_data_directory(tmp_path / "home" / ".adaptlab", "http://home")
    environment = {"HOME": str(tmp_path / "home")}
    (tmp_path / "project" / "deep" / "er").mkdir(parents=True)
    deep = tmp_path / "project" / "deep" / "er"
    assert discover(environment=environment, start=deep).url == "http://parent"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert discover(environment=environment, start=elsewhere).url == "http://home"


def test_the_named_data_directory_wins(tmp_path: Path) -> None:
    a_data_directory(tmp_path / ".adaptlab", "http://here")
    named = a_data_directory(tmp_path / "named", "http://named")
    environment = {"ADAPTLAB_DATA_DIR": str(named), "HOME": "/nowhere"}
    assert discover(environment=environment, start=tmp_path).url == "http://named"


def test_a_token_in_a_file_goes_to_no_other_server(tmp_path: Path) -> None:
    a_data_directory(tmp_path / ".adaptlab", "http://127.0.0.1:8123")
    known = {"HOME": "/nowhere"}
    same = discover("http://127.0.0.1:8123/", environment=known, start=tmp_path)
    assert same.token == "al_from_file"
    assert discover("http://elsewhere", environment=known, start=tmp_path).token is None
    from_environment = known | {"ADAPTLAB_URL": "http://elsewhere"}
    assert discover(environment=from_environment, start=tmp_path).token is None


def test_the_token_of_a_named_directory_without_a_server_is_used(tmp_path: Path) -> None:
    named = a_data_directory(tmp_path / "volume", url=None)
    environment = {"ADAPTLAB_DATA_DIR": str(named), "ADAPTLAB_URL": "http://api:8000"}
    assert discover(environment=environment, start=tmp_path).token == "al_from_file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_data_directory_of_another_user_is_passed_over(tmp_path: Path) -> None:
    os.chown(a_data_directory(tmp_path / ".adaptlab"), 12345, 12345)
    with pytest.raises(NoServer):
        discover(environment={"HOME": "/nowhere"}, start=tmp_path)


@pytest.mark.parametrize("address", ["nonsense", "ftp://x", "http://", "file:///etc/passwd"])
def test_what_is_no_address_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(NoServer, match="is not a server address"):
        discover(address, environment={}, start=tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"url": 3}'])
def test_a_broken_server_file_is_no_server(content: str, tmp_path: Path) -> None:
    folder = a_data_directory(tmp_path / ".adaptlab", url=None)
    (folder / "server.json").write_text(content)
    with pytest.raises(NoServer, match="adaptlab up"):
        discover(environment={"HOME": "/nowhere"}, start=tmp_path)


def test_a_server_that_is_still_starting_is_told_from_none(tmp_path: Path) -> None:
    directory = a_data_directory(tmp_path / ".adaptlab", None)
    (directory / "lock").write_text(str(os.getpid()))  # as `adaptlab up` writes it
    with pytest.raises(ServerStarting, match="is starting"):
        discover(environment={"HOME": "/nowhere"}, start=tmp_path)
    (directory / "lock").write_text("")
    with pytest.raises(NoServer, match="none was found"):
        discover(environment={"HOME": "/nowhere"}, start=tmp_path)


@pytest.mark.parametrize(("older", "expected"), [("login", "http://last"), ("last", "http://b")])
def test_the_later_of_a_start_and_a_login_is_meant(
    older: str, expected: str, tmp_path: Path
) -> None:
    directory = a_data_directory(tmp_path / "data", "http://last")
    (directory / "lock").write_text(str(os.getpid()))
    known = {"HOME": str(tmp_path)}
    files = {"login": keep(known, "http://b", "tb"), "last": record_of(known)}
    files["last"].parent.mkdir(parents=True)
    files["last"].write_text(str(directory))
    os.utime(files[older], (0, 0))
    assert discover(environment=known, start=tmp_path).url == expected
    named = known | {"ADAPTLAB_URL": "http://a"}
    assert discover(environment=named, start=tmp_path) == ("http://a", None)
