"""The command line as a process: signals, closed pipes, old terminals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address, Invoke
from tests.making import a_base_model, a_job, a_study_document, an_adapt_spec

from adaptlab_client import Client

Sessions = sessionmaker[Session]
PROGRAM = [sys.executable, "-c", "from adaptlab_client.cli.main import run; run()"]


def environment(address: Address | None, **more: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")}
    return plain | (address.environment if address else {}) | more


@pytest.mark.long("walks through commands and documents", but=1)
@pytest.mark.parametrize("kind", ["jobs", "studies"])
def test_ctrl_c_ends_the_waiting_and_nothing_else(
    address: Address, client: Client, sessions: Sessions, kind: str
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        waited_for = str(a_job(session, state="queued"))
    if kind == "studies":
        waited_for = str(client.studies.create(a_study_document()).id)
    waiting = subprocess.Popen(
        [*PROGRAM, kind, "wait", waited_for],
        env=environment(address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None
    first = waiting.stderr.readline()  # it says the state, and so it waits
    assert "queued" in first
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert f"adaptlab {kind} wait {waited_for}" in said
    assert f"the {kind} go on" in said
    assert "Traceback" not in said
    if kind == "jobs":
        assert client.jobs.get(waited_for).state == "queued"
    else:
        assert not client.studies.get(waited_for).terminal


def test_a_pipe_that_is_closed_early_is_no_fault(address: Address, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        for number in range(3):
            a_job(session, an_adapt_spec(labels={"n": f"{number}" * 60}), state="succeeded")
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does when it has had enough
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            [*PROGRAM, "jobs", "list", "--output", "json"],
            env=environment(address),
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.long("walks through commands and documents")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_escapes(
    address: Address, sessions: Sessions, encoding: str
) -> None:
    with sessions.begin() as session:
        job = str(a_job(session, state="failed", error="Größe – 数", reason="user_error"))
    known = environment(address, PYTHONIOENCODING=encoding)

    def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*PROGRAM, *arguments], env=known, capture_output=True, timeout=120, check=False
        )

    shown = run("jobs", "show", job)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert rb"\u2013 \u6570" in shown.stdout
    document = run("jobs", "show", job, "-o", "json")
    assert json.loads(document.stdout.decode(encoding))["error"] == "Größe – 数"
    assert run("jobs", "wait", job).returncode == 1


def test_nothing_is_coloured_where_nobody_looks(address: Address, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_job(session, state="succeeded")
    forced = environment(address, FORCE_COLOR="1", CLICOLOR_FORCE="1", TERM="xterm-256color")
    done = subprocess.run(
        [*PROGRAM, "jobs", "list"], env=forced, capture_output=True, timeout=120, check=True
    )
    assert b"\x1b" not in done.stdout + done.stderr


def test_quiet_says_only_what_went_wrong(invoke: Invoke, sessions: Sessions) -> None:
    with sessions.begin() as session:
        good, bad = (str(a_job(session, state=state)) for state in ("succeeded", "failed"))
    assert invoke("jobs", "wait", good).stderr
    for arguments in (("jobs", "wait", good, "-q"), ("--quiet", "jobs", "wait", good)):
        done = invoke(*arguments)
        assert (done.exit_code, done.stderr) == (0, "")
        assert good in done.stdout
    assert bad in invoke("jobs", "wait", bad, "--quiet").stderr
    assert invoke("jobs", "wait", good).stderr, "the next command speaks again"


def test_what_ended_in_time_is_printed(invoke: Invoke, sessions: Sessions) -> None:
    with sessions.begin() as session:
        good, still = (str(a_job(session, state=state)) for state in ("succeeded", "queued"))
    for output in ("id", "jsonl", "csv", "table"):
        done = invoke("jobs", "wait", still, good, "--timeout", "0.3", "-o", output)
        assert (done.exit_code, good in done.stdout) == (124, True), done.output


def test_studies_are_waited_for_together(
    invoke: Invoke, client: Client, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    client.studies.create(a_study_document(name="first"))
    client.studies.cancel("first")
    client.studies.create(a_study_document(name="second", seeds=3))
    done = invoke("studies", "wait", "first", "second", "--any", "-o", "jsonl")
    assert (done.exit_code, json.loads(done.stdout)["name"]) == (1, "first")
    late = invoke("studies", "wait", "first", "second", "--timeout", "0.3", "-o", "csv")
    assert late.exit_code == 124
    assert "second" in late.stderr


@pytest.mark.long("walks through commands and documents", but=1)
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9", "ftp://127.0.0.1", "nonsense", "http://[::1", "http://no host"],
)
def test_a_wrong_address_is_told_in_one_line_before_the_next_step(
    shared_invoke: Invoke, url: str
) -> None:
    done = shared_invoke("--url", url, "jobs", "list")
    assert_told(done.exit_code, done.stdout, done.stderr)


def test_a_process_tells_it_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "--url", "http://127.0.0.1:many", "jobs", "list"],
        env=environment(None, HOME=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert_told(done.returncode, done.stdout, done.stderr)


def assert_told(code: int, printed: str, told: str) -> None:
    assert (code, printed) == (69, "")
    assert told.startswith("adaptlab: ")
    _, *steps = told.splitlines()
    assert len(steps) <= 1
    assert all("adaptlab up" in step for step in steps)
