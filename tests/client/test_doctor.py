"""What `adaptlab doctor` finds, and that it says what to do."""

import json
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path

import pytest
from tests.client.conftest import Address, Invoke

from adaptlab.c_compiler import WHAT_IT_COSTS
from adaptlab_answers.people import Me
from adaptlab_answers.server import Expiry
from adaptlab_client import Client
from adaptlab_client.errors import NoServer
from adaptlab_client.machine.doctor import (
    CheckResult,
    examine,
    of_clock,
    of_compiler,
    of_control_group,
    of_expiry,
    of_rights,
)
from adaptlab_client.machine.hardware import torch_here
from adaptlab_client.transport import credentials
from adaptlab_client.transport.connection import Retries

NOW = datetime(2027, 3, 1, tzinfo=UTC)


OF_THE_MACHINE = ("trainers", "disk", "compiler")
"""Checks whose state depends on where the tests run."""


def without_torch(client: Client | Exception, home: Path) -> dict[str, CheckResult]:
    """All findings but the last two, for which torch would be loaded."""

    def connect() -> Client:
        if isinstance(client, Exception):
            raise client
        return client

    found = examine(connect, home / "scratch", {"HOME": str(home)})
    there = takewhile(lambda one: one.check != "disk", found)
    return {one.check: one for one in there}


@pytest.mark.long("walks through commands and documents")
def test_a_machine_in_order_is_told_what_it_has(invoke: Invoke, tmp_path: Path) -> None:
    options = ("--output", "json", "--scratch", str(tmp_path))
    done = invoke("doctor", *options, XDG_CONFIG_HOME=str(tmp_path))
    assert done.exit_code == 0, done.output
    found = {one["check"]: one for one in json.loads(done.stdout)}
    assert list(found) == [
        *("log-in file", "server", "clock", "database"),
        *("token", "versions", "expiry", "workers", "trainers"),
        *("control group", "disk", "torch", "compiler"),
    ]
    states = {check: one["state"] for check, one in found.items() if check not in OF_THE_MACHINE}
    assert states == dict.fromkeys(states, "ok") | {"workers": "warn"}
    assert "adaptlab worker" in found["workers"]["next_step"]
    assert found["torch"]["found"].startswith(version("torch"))


def test_the_first_failure_decides_the_exit_code(invoke: Invoke, tmp_path: Path) -> None:
    alone = {"XDG_CONFIG_HOME": str(tmp_path), "ADAPTLAB_TOKEN": "al_wrong"}
    wrong = invoke("doctor", "--output", "csv", **alone)
    assert wrong.exit_code == 4
    (told,) = (line for line in wrong.stdout.splitlines() if line.startswith("token,"))
    assert "fail" in told
    assert "adaptlab login" in told


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    gone = Client("http://127.0.0.1:1", "al_x", retries=Retries(attempts=1))
    found = without_torch(gone, tmp_path)
    assert found["server"].state == "fail"
    assert "http://127.0.0.1:1" in found["server"].found
    of_the_machine = {"log-in file", "server", "trainers", "control group"}
    assert set(found) == of_the_machine, "nothing else can be asked"
    nowhere = without_torch(NoServer("Set ADAPTLAB_URL."), tmp_path)
    assert nowhere["server"].next_step == "Set ADAPTLAB_URL."


def test_a_file_that_others_can_read_is_told(address: Address, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    path = credentials.keep(home, address.url, address.token)
    assert without_torch(Client(*address), tmp_path)["log-in file"].state == "ok"
    path.chmod(0o644)
    found = without_torch(Client(*address), tmp_path)["log-in file"]
    assert found.state == "fail"
    assert "chmod 600" in found.next_step


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (None, "ok"),
        (NOW - timedelta(seconds=2), "ok"),
        (NOW - timedelta(minutes=10), "warn"),
        (NOW + timedelta(minutes=10), "warn"),
    ],
)
def test_a_clock_that_is_off_is_told(told: datetime | None, state: str) -> None:
    assert of_clock(told, NOW).state == state


@pytest.mark.parametrize(
    ("scopes", "expires_at", "state"),
    [
        (["read", "submit"], None, "ok"),
        (["read"], None, "warn"),
        (["read", "submit"], NOW + timedelta(days=2), "warn"),
        (["read", "submit"], NOW + timedelta(days=20), "ok"),
    ],
)
def test_a_token_that_will_not_do_for_long_is_told(
    scopes: list[str], expires_at: datetime | None, state: str
) -> None:
    token = {"id": 1, "name": "laptop", "user": "ada", "scopes": scopes, "state": "valid"}
    token |= {"created_at": NOW, "expires_at": expires_at}
    token |= {"project": None, "job": None, "revoked_at": None, "last_used_at": None}
    usage = {"days": 30, "queues": [], "stored_bytes": 0, "most_stored_bytes": None}
    usage |= {"counted_at": NOW}
    me = Me.model_validate(
        {
            "user": "ada",
            "is_admin": False,
            "token": token,
            "projects": [],
            "usage": usage,
            "usual_project": None,
            "invitations": [],
        }
    )
    assert of_rights(me, NOW).state == state


def test_a_missing_compiler_is_told_with_what_it_costs() -> None:
    assert of_compiler("/usr/bin/cc", trains_here=True).found == "/usr/bin/cc"
    told = of_compiler(None, trains_here=True)
    assert (told.state, told.found) == ("warn", f"none, so {WHAT_IT_COSTS}")
    assert "gcc" in told.next_step
    assert of_compiler(None, trains_here=False).state == "ok"


def test_a_torch_that_does_not_load_is_told() -> None:
    found = torch_here(python="/bin/false")
    assert found is not None
    assert found.fault == "exit status 1"


def test_a_kernel_that_cannot_confine_trainers_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adaptlab_client.machine.doctor.landlock_version", lambda: 0)
    found = without_torch(NoServer("Set ADAPTLAB_URL."), tmp_path)["trainers"]
    assert (found.state, "lacks Landlock" in found.found) == ("warn", True)
    assert found.next_step


def test_a_delegated_control_group_is_reported() -> None:
    assert "each of its processes" in of_control_group(None).found
    assert "/lab.service is delegated" in of_control_group(Path("/sys/fs/cgroup/lab.service")).found


def test_what_the_server_removes_by_itself_is_listed() -> None:
    assert of_expiry(Expiry()).found == "removes nothing"
    found = of_expiry(Expiry(archived_days=30, worker_days=7.5)).found
    assert found == "removes archived jobs after 30 days, dead workers after 7.5 days"
