"""The units of systemd, checked without starting them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer

from adaptlab_services.settings import Settings

BINARY = "/opt/adaptlab/.venv/bin/adaptlab"
UNITS = ("adaptlab.service", "adaptlab-worker@.service")
OF_CLIENTS = {"ADAPTLAB_URL"}
HARDENING = {
    # What a worker needs whose trainers have users and control groups of their own.
    "User": "root",
    "CapabilityBoundingSet": "CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL "
    "CAP_SETGID CAP_SETPCAP CAP_SETUID",
    "ProtectProc": "default",
    "StateDirectoryMode": "0711",
    "Delegate": "memory pids",
    "ProtectControlGroups": "no",
    "LockPersonality": "yes",
    "NoNewPrivileges": "yes",
    "PrivateDevices": "yes",
    "PrivateTmp": "yes",
    "ProtectHome": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectSystem": "strict",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "UMask": "0077",
}
Options = list[tuple[str, str]]


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "deploy" / "systemd"


def options_of(unit: Path) -> Options:
    """Every option of a unit, in order; a line of another form is an error."""
    lines = [line for line in unit.read_text().splitlines() if line and line[0] not in "#["]
    pairs = [line.partition("=") for line in lines]
    assert all(equals for _, equals, _ in pairs), lines
    return [(name, value) for name, _, value in pairs]


def commands_of(unit: Path) -> list[list[str]]:
    """The arguments of each command, without the program."""
    texts = [value for name, value in options_of(unit) if name.startswith("Exec")]
    words = [shlex.split(text.removeprefix("-")) for text in texts]
    assert {line[0] for line in words} == {BINARY}
    return [line[1:] for line in words]


def systemd_analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        missing = "systemd-analyze is not installed; `apt-get install systemd`."
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def verified(folder: Path, *units: str) -> str:
    """Return what systemd has to say against units."""
    command = [systemd_analyze(), "verify", *(str(folder / unit) for unit in units)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_systemd_accepts_every_line(folder: Path, tmp_path: Path) -> None:
    installed = tmp_path / "adaptlab"  # a path without a space, as in the units
    installed.symlink_to(Path(sys.prefix) / "bin" / "adaptlab")
    for unit in UNITS:
        (tmp_path / unit).write_text((folder / unit).read_text().replace(BINARY, str(installed)))
    with_gpu = tmp_path / "adaptlab.service.d"
    with_gpu.mkdir()
    shutil.copy(folder / "gpu.conf", with_gpu)
    assert verified(tmp_path, *UNITS) == ""
    (with_gpu / "gpu.conf").write_text("[Service]\nPrivateGadgets=no\n")
    assert "PrivateGadgets" in verified(tmp_path, "adaptlab.service"), "a flaw is found"


@pytest.mark.parametrize("unit", UNITS)
def test_the_folders_of_a_unit_can_be_passed_by_other_users(folder: Path, unit: str) -> None:
    """By Postgres and trainers, also in a data folder of an earlier version."""
    options = dict(options_of(folder / unit))
    folders = {f"/var/lib/{name}" for name in options["StateDirectory"].split()}
    used = re.findall(r"/var/lib/[\w/%-]+", options["ExecStart"])
    assert used
    assert set(used) <= folders


@pytest.mark.parametrize("unit", UNITS)
def test_the_commands_of_a_unit_are_those_that_adaptlab_understands(
    folder: Path, unit: str
) -> None:
    found = commands_of(folder / unit)
    assert found
    for name, *arguments in found:
        (point,) = entry_points(group="adaptlab.commands", name=name)
        application = typer.Typer()
        application.command(name)(point.load())
        command = typer.main.get_command(application)
        assert command.make_context(name, list(arguments)) is not None


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_gives_no_more_than_it_must(folder: Path, unit: str) -> None:
    options = options_of(folder / unit)
    given = dict(options)
    assert {name: given.get(name) for name in HARDENING} == HARDENING
    assert len(given) == len(options), "no option is given twice"
    assert given["SystemCallFilter"].startswith("@system-service landlock_")
    # The worker has to be ready with its runs before systemd kills it.
    if (wait := re.search(r"--save-within (\d+)", given["ExecStart"])) is not None:
        assert int(wait[1]) < int(given["TimeoutStopSec"])


@pytest.mark.parametrize("name", ["adaptlab.env.example", "worker.env.example"])
def test_the_settings_of_an_example_exist(folder: Path, name: str) -> None:
    known = {f"ADAPTLAB_{field}".upper() for field in Settings.model_fields} | OF_CLIENTS
    named = re.findall(r"^#?([A-Z_]+)=", (folder / name).read_text(), re.MULTILINE)
    assert named
    assert {one.removesuffix("_FILE") for one in named} <= known


def test_the_page_names_every_file_and_where_it_goes(repository: Path, folder: Path) -> None:
    page = (repository / "docs" / "how-to" / "run-under-systemd.md").read_text()
    assert [path.name for path in folder.iterdir() if path.name not in page] == []
    used = {
        place
        for unit in UNITS
        for place in re.findall(r"/etc/adaptlab/[\w.-]+", (folder / unit).read_text())
    }
    assert len(used) == 3
    assert [place for place in used if place not in page] == []
