"""Completion in the shell: commands, options and names of the server."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address, Invoke
from tests.making import a_base_model, a_job, a_study_document

from adaptlab_client import Client
from adaptlab_client.cli import suggestions
from adaptlab_client.cli.main import application

Offers = Callable[..., list[str]]
Sessions = sessionmaker[Session]
PROGRAM = """
from adaptlab_client.cli import suggestions
from adaptlab_client.cli.main import run
suggestions.SECONDS = 60.0  # who types waits two seconds; a test waits for what is to be offered
run()
"""


def asked(words: str, shell: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The shell's request for the line `words`; the last is being typed."""
    parts = words.split(" ")
    of_shell = {
        "bash": {"COMP_WORDS": words, "COMP_CWORD": str(len(parts) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": words},
        "fish": {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    plain = {k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=plain | environment | of_shell | {"_ADAPTLAB_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def offered(words: str, environment: dict[str, str], shell: str = "bash") -> list[str]:
    done = asked(words, shell, environment)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.fixture
def nobody(tmp_path: Path) -> dict[str, str]:
    """An environment that names no server."""
    return {"HOME": str(tmp_path), "ADAPTLAB_DATA_DIR": str(tmp_path)}


@pytest.mark.long("walks through commands and documents")
def test_commands_and_options_need_no_server(nobody: dict[str, str]) -> None:
    assert offered("adaptlab jo", nobody) == ["jobs"]
    assert {"submit", "list", "wait"} <= set(offered("adaptlab jobs ", nobody))
    assert "worker" in offered("adaptlab wor", nobody), "commands of other packages too"
    assert {"--any", "--all", "--timeout", "--quiet"} <= set(
        offered("adaptlab jobs wait --", nobody)
    )
    assert offered("adaptlab jobs list --output js", nobody) == ["json", "jsonl"]
    assert offered("adaptlab completion ", nobody) == ["bash", "zsh", "fish"]


@pytest.mark.long("walks through commands and documents")
def test_without_a_server_nothing_is_offered_and_nothing_said(nobody: dict[str, str]) -> None:
    assert offered("adaptlab jobs show ", nobody) == []
    gone = nobody | {"ADAPTLAB_URL": "http://127.0.0.1:9", "ADAPTLAB_TOKEN": "al_none"}
    assert offered("adaptlab studies wait ", gone) == []


@pytest.mark.long("walks through commands and documents")
def test_ids_and_names_come_from_the_server(
    address: Address, client: Client, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        job = str(a_job(session, state="queued"))
    client.studies.create(a_study_document())
    known = address.environment
    assert job in offered("adaptlab jobs show ", known)
    assert offered(f"adaptlab jobs wait {job[:-2]}", known) == [job]
    assert offered("adaptlab studies show sm", known) == ["small"]
    assert offered("adaptlab base-models show ", known) == ["tiny-sort"]
    assert "petrov2024/table-1" in offered("adaptlab recipes show petrov", known)
    assert any(job in line for line in offered("adaptlab jobs show ", known, "zsh"))
    assert any(
        line.startswith(f"{job}\t") for line in offered("adaptlab jobs show ", known, "fish")
    )
    wrong = known | {"ADAPTLAB_TOKEN": "al_wrong"}
    assert offered("adaptlab jobs show ", wrong) == []


def test_what_a_shell_would_run_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines go through `eval` in zsh, and names are other people's."""
    monkeypatch.setenv("ADAPTLAB_URL", "http://127.0.0.1:9")
    found = [("$(touch owned)", "no"), ("--output", "no"), ("good", "it's `ls` > $HOME; really")]
    root: Any = typer.main.get_command(application())
    offers = suggestions.suggest(lambda client: found)
    assert offers(root.context_class(root), "") == [("good", "it s  ls     HOME  really")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_taught_by_what_is_printed(invoke: Invoke, shell: str) -> None:
    script = invoke("completion", shell).stdout
    assert f"_ADAPTLAB_COMPLETE=complete_{shell}" in script
    assert invoke("completion", "tcsh").exit_code == 2


def test_bash_completes(nobody: dict[str, str], invoke: Invoke, tmp_path: Path) -> None:
    """A real bash, with the script and a program of the command line's name."""
    bash = shutil.which("bash")
    assert bash is not None, "every CI machine has bash; make a link to it"
    program = tmp_path / "bin" / "adaptlab"
    program.parent.mkdir()
    # Not by its first line, which cannot name a program in a folder with a space.
    python = shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nexec {python} -c {shlex.quote(PROGRAM)} "$@"\n')
    program.chmod(0o755)
    lines = f"""{invoke("completion", "bash").stdout}
COMP_WORDS=(adaptlab studies ext) COMP_CWORD=2
_adaptlab_completion adaptlab
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")}
    path = f"{program.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", lines],
        env=plain | nobody | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("extend\n", "")
