"""Signing in at the command line: where tokens are kept, and their use."""

import json
import re
import stat
from pathlib import Path

import pytest
from tests.client.conftest import Address, Invoke
from tests.making import a_pretrain_document

from adaptlab_client.client import Client
from adaptlab_client.errors import UnsafeFile
from adaptlab_client.transport import credentials
from adaptlab_client.transport.discovery import discover


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory in which nobody has signed in."""
    for name in ("ADAPTLAB_TOKEN", "ADAPTLAB_URL", "ADAPTLAB_DATA_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kept_in(home: Path) -> Path:
    return home / ".config" / "adaptlab" / "tokens.json"


def test_a_token_is_kept_for_its_server_and_for_nobody_else(
    invoke: Invoke, address: Address, home: Path
) -> None:
    done = invoke("login", given=address.token + "\n", ADAPTLAB_TOKEN="")
    assert done.exit_code == 0, done.output
    assert address.token not in done.output
    file = kept_in(home)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert discover() == (address.url, address.token)  # the server that was signed in to last
    assert discover("http://elsewhere.example").token is None


def test_a_kept_token_opens_its_server_until_it_is_forgotten(
    invoke: Invoke, address: Address, home: Path
) -> None:
    invoke("login", given=address.token + "\n", ADAPTLAB_TOKEN="")
    me = invoke("whoami", "-o", "json", ADAPTLAB_TOKEN="")
    assert json.loads(me.stdout)["user"] == "ada"
    assert invoke("logout", ADAPTLAB_TOKEN="").exit_code == 0
    assert invoke("whoami", ADAPTLAB_TOKEN="").exit_code == 4
    assert json.loads(kept_in(home).read_text()) == {"latest": None, "tokens": {}}


def test_who_one_is_is_shown_with_the_end_of_the_token_and_the_projects(invoke: Invoke) -> None:
    told = dict(line.split(None, 1) for line in invoke("whoami").stdout.splitlines())
    assert told["user"].startswith("ada, an admin")
    assert (told["expires"].strip(), told["projects"].strip()) == ("never", "default (admin)")


def test_a_token_that_opens_nothing_is_not_kept(invoke: Invoke, home: Path) -> None:
    for given in ("al_wrong\n", "", "al_\x1b[2J\n", "al_ä\n"):
        assert invoke("login", given=given, ADAPTLAB_TOKEN="").exit_code in (2, 4)
    assert not kept_in(home).exists()


def test_logging_out_can_revoke(invoke: Invoke, address: Address, home: Path) -> None:
    made = invoke("tokens", "create", "laptop", "-o", "json")
    token = json.loads(made.stdout)["token"]
    assert invoke("login", given=token).exit_code == 0
    assert invoke("logout", "--revoke").exit_code == 0
    assert invoke("whoami", ADAPTLAB_TOKEN=token).exit_code == 4
    assert invoke("whoami").exit_code == 0


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o601])
def test_a_file_that_others_can_get_at_is_refused(
    invoke: Invoke, address: Address, home: Path, mode: int
) -> None:
    file = credentials.keep({"HOME": str(home)}, address.url, address.token)
    assert invoke("whoami", ADAPTLAB_TOKEN="").exit_code == 0
    file.chmod(mode)
    refused = invoke("whoami", ADAPTLAB_TOKEN="")
    assert refused.exit_code == 4
    assert "chmod 600" in refused.stderr
    assert invoke("whoami").exit_code == 0  # the variable goes first, and nothing is read
    with pytest.raises(UnsafeFile):
        discover()


@pytest.mark.parametrize("content", ["", "[]", '{"tokens": [1]}', '{"tokens": {"a": 1}}', "\xff"])
def test_a_spoiled_file_holds_nothing(home: Path, content: str) -> None:
    file = credentials.keep({"HOME": str(home)}, "http://one", "al_x")
    file.write_text(content, encoding="latin-1")
    assert credentials.read({"HOME": str(home)}) == ({}, None)


def test_several_servers_are_kept_apart(home: Path) -> None:
    environment = {"HOME": str(home)}
    credentials.keep(environment, "http://one", "al_1")
    credentials.keep(environment, "http://two", "al_2")
    assert credentials.read(environment) == (
        {"http://one": "al_1", "http://two": "al_2"},
        "http://two",
    )
    assert credentials.forget(environment, "http://one") == "al_1"
    assert credentials.forget(environment, "http://one") is None
    assert credentials.read(environment).latest == "http://two"


def test_a_token_is_printed_alone_and_opens_nothing_when_it_is_revoked(
    invoke: Invoke, home: Path
) -> None:
    invoke("users", "create", "bert")
    made = invoke("tokens", "create", "script", "--user", "bert", "--days", "7")
    assert made.stdout.startswith("al_")
    assert made.stdout.count("\n") == 1
    token = made.stdout.strip()
    assert invoke("users", "list", ADAPTLAB_TOKEN=token).exit_code == 4
    listed = map(json.loads, invoke("tokens", "list", "-o", "jsonl").stdout.splitlines())
    (bert,) = [entry for entry in listed if entry["user"] == "bert"]
    assert invoke("tokens", "revoke", str(bert["id"])).exit_code == 0
    assert invoke("whoami", ADAPTLAB_TOKEN=token).exit_code == 4
    assert invoke("tokens", "revoke", "no").exit_code == 2


def test_a_client_works_in_the_project_that_it_names(
    address: Address, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(*address) as client:
        client.projects.create("vision")
    with Client(*address, project="vision") as client:
        job = client.jobs.submit(a_pretrain_document())
        assert job.model_dump()["project"] == "vision"
    monkeypatch.setenv("ADAPTLAB_PROJECT", "default")
    with Client(*address) as client:
        assert list(client.jobs.list()) == []
    monkeypatch.setenv("ADAPTLAB_PROJECT", "vision")
    with Client(*address) as client:
        assert [found.id for found in client.jobs.list()] == [job.id]
        assert client.jobs.get(job.id).id == job.id


def test_one_command_invites_a_person_and_prints_what_to_send_on(invoke: Invoke) -> None:
    invite = ("users", "invite", "grace", "--project", "vision", "--role", "reader")
    assert invoke(*invite).exit_code == 5, "nothing is created without the project"
    assert "grace" not in invoke("users", "list").stdout
    invoke("projects", "create", "vision")
    done = invoke(*invite)
    assert "as reader of the project vision" in done.stdout
    (token,) = re.findall("al_[A-Za-z0-9_-]+", done.stdout)
    assert "vision (reader)" in invoke("whoami", ADAPTLAB_TOKEN=token).stdout
    again = invoke(*invite, "--output", "id")
    assert (again.exit_code, "exists already" in again.stderr) == (0, True)
