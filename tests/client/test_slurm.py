"""The scripts of the how-to for Slurm, run by bash without a Slurm."""

import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import yaml
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address, Invoke
from tests.client.finished import record_results
from tests.job_rows import new_job
from tests.making import a_base_model, a_claim, a_made_up_ledger, an_adapt_document
from tests.worker.conftest import wait_until

from adaptlab_client import Client
from adaptlab_client.cli.commands import slurm
from adaptlab_services.jobs import batch_tokens

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-from-slurm.md"
SUBMIT, ELEMENT, WORKER = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
PROGRAM = "import sys; from adaptlab_client.cli.main import run; run()"
CALLING = f'exec {shlex.quote(sys.executable)} -c {shlex.quote(PROGRAM)} "$@"\n'
"""Not by its first line, which cannot name a program in a folder with a space."""

Sessions = sessionmaker[Session]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the programs that the scripts call, and a spec."""
    place = tmp_path / "home of ada"
    (place / "bin").mkdir(parents=True)
    a_program(place, "adaptlab", f"#!/bin/sh\n{CALLING}")
    a_program(place, "scontrol", '#!/bin/sh\necho "$@" >> scontrol.log\n')
    (place / "job.yaml").write_text(yaml.safe_dump(an_adapt_document()))
    return place


def a_program(folder: Path, name: str, text: str) -> None:
    path = folder / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


def run(
    script: str, folder: Path, address: Address, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", script],
        env=environment(folder, address) | more,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def environment(folder: Path, address: Address) -> dict[str, str]:
    """What a batch job finds in its environment."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")}
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    of_slurm = {
        "SLURM_CLUSTER_NAME": "lab",
        "SLURM_JOB_ID": "4711",
        "SLURM_ARRAY_JOB_ID": "4711",
        "SLURM_ARRAY_TASK_ID": "3",
    }
    return plain | address.environment | of_slurm | {"PATH": path, "HOME": str(folder)}


def test_a_script_submits_waits_is_requeued_and_fetches(
    folder: Path, address: Address, client: Client, sessions: Sessions, tmp_path: Path
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    early = run(SUBMIT, folder, address, PATIENCE="0.1")
    assert early.returncode == 124, early.stderr
    assert (folder / "scontrol.log").read_text() == "requeue 4711\n"
    (job,) = client.jobs.list(filter="kind = adapt")
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    record_results(ledger, claim, tmp_path, an_array())
    ledger.finish(claim)
    requeued = run(SUBMIT, folder, address)
    assert requeued.returncode == 0, requeued.stderr
    assert [one.id for one in client.jobs.list(filter="kind = adapt")] == [job.id], "one job only"
    assert len([*(folder / "checkpoints").glob("*.safetensors")]) == 1
    assert len((folder / f"scores-{job.id}.csv").read_text().splitlines()) == 5


@pytest.mark.long("real Slurm")
def test_a_script_ends_as_its_job_and_is_not_requeued_for_nothing(
    folder: Path, address: Address, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    run(SUBMIT, folder, address, PATIENCE="0.1")
    (folder / "scontrol.log").unlink()
    ledger = a_made_up_ledger(sessions)
    ledger.fail(a_claim(ledger), "diverged", "not finite", retry=False)
    failed = run(SUBMIT, folder, address)
    assert failed.returncode == 1
    assert "failed" in failed.stderr
    (folder / "job.yaml").write_text("kind: adapt\n")
    assert run(SUBMIT, folder, address, SLURM_JOB_ID="4712").returncode == 2
    assert not (folder / "scontrol.log").exists()


@pytest.mark.long("real Slurm")
def test_a_number_that_another_cluster_gave_as_well_is_another_job(
    folder: Path, address: Address, client: Client, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    for cluster in ("lab", "north", "lab"):
        waited = run(SUBMIT, folder, address, PATIENCE="0.1", SLURM_CLUSTER_NAME=cluster)
        assert waited.returncode == 124, waited.stderr
    assert len([*client.jobs.list(filter="kind = adapt")]) == 2


@pytest.mark.long("real Slurm")
def test_an_element_of_an_array_has_a_job_of_its_own(
    folder: Path, address: Address, client: Client, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
    first = run(ELEMENT, folder, address)
    assert first.returncode == 0, first.stderr
    assert run(ELEMENT, folder, address).stdout == first.stdout
    other = run(ELEMENT, folder, address, SLURM_ARRAY_TASK_ID="4").stdout
    assert other != first.stdout
    assert client.jobs.get(other.strip()).labels == {"element": "4"}


WORKING = """#!/bin/bash
if [ "$1" != worker ]; then exec sleep 60; fi
echo "$@" > worker.args
env | grep '^ADAPTLAB_' > worker.env
mkdir "${!#}"
trap 'echo USR1 >> signals; code=75' USR1
trap 'echo TERM >> signals; code=75' TERM
code=
touch ready
until [ -n "$code" ] || [ -e done ]; do sleep 0.05; done
exit "${code:-0}"
"""


@pytest.fixture
def worker(folder: Path) -> Path:
    """The same folder, with a worker that notes its arguments and its signals."""
    a_program(folder, "adaptlab", WORKING)
    return folder


def test_the_scripts_of_the_page_are_what_the_command_prints(shared_invoke: Invoke) -> None:
    submit = shared_invoke("sbatch-script", "--submit", "job.yaml", "--name", "compare")
    assert submit.stdout == SUBMIT
    options = ("--name", "adaptlab-worker", "--time", "08:00:00", "--gpus", "1", "--queue", "gpu")
    assert shared_invoke("sbatch-script", *options).stdout == WORKER


def test_a_worker_ends_when_nothing_is_left_to_do(worker: Path, shared_address: Address) -> None:
    (worker / "done").touch()
    done = run(WORKER, worker, shared_address, SLURM_TMPDIR=str(worker))
    assert (done.returncode, done.stderr) == (0, "")
    arguments = (worker / "worker.args").read_text().split()
    assert arguments[:4] == ["worker", "--drain", "--until", "auto"]
    assert not (worker / "adaptlab-4711").exists(), "its files are removed"
    assert not (worker / "scontrol.log").exists()


@pytest.mark.parametrize(("number", "requeued"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_a_script_passes_a_signal_on_and_is_requeued_only_at_the_end_of_its_time(
    worker: Path, shared_address: Address, number: signal.Signals, requeued: bool
) -> None:
    script = subprocess.Popen(
        ["/bin/bash", "-c", WORKER],
        env=environment(worker, shared_address) | {"SLURM_TMPDIR": str(worker)},
        cwd=worker,
    )
    try:
        wait_until((worker / "ready").exists, "the worker")
        script.send_signal(number)
        assert script.wait(60) == 75
    finally:
        script.kill()
    assert (worker / "signals").read_text().split() == [number.name.removeprefix("SIG")]
    assert (worker / "scontrol.log").exists() == requeued


def test_a_token_for_one_job_is_in_a_file_of_its_user_and_expires(
    shared_client: Client, shared_sessions: Sessions, shared_invoke: Invoke, tmp_path: Path
) -> None:
    job_id = str(new_job(shared_sessions, queue="gpu"))
    place = tmp_path / "tokens of jobs"
    printed = shared_invoke("sbatch-script", "--job", job_id, "--token-folder", str(place))
    assert printed.exit_code == 0, printed.stderr
    (file,) = place.iterdir()
    assert (file.name, stat.S_IMODE(file.stat().st_mode)) == (f"{job_id}.token", 0o600)
    assert file.read_text().strip() not in printed.output
    entry = next(one for one in shared_client.tokens.list() if str(one.job) == job_id)
    assert entry.expires_at is not None
    left = entry.expires_at - datetime.now(UTC)
    assert timedelta(hours=51) < left <= timedelta(hours=52)  # four of the batch job, and two days


def test_a_worker_of_one_job_reads_its_token_from_a_file_that_is_then_removed(
    worker: Path, shared_address: Address, shared_sessions: Sessions, shared_invoke: Invoke
) -> None:
    job_id = str(new_job(shared_sessions, queue="gpu"))
    place = worker / "tokens of jobs"
    printed = shared_invoke("sbatch-script", "--job", job_id, "--token-folder", str(place))
    (file,) = place.iterdir()
    secret = file.read_text().strip()
    (worker / "done").touch()
    done = run(printed.stdout, worker, shared_address, SLURM_TMPDIR=str(worker))
    assert (done.returncode, done.stderr) == (0, "")
    environment = (worker / "worker.env").read_text()
    assert f"ADAPTLAB_TOKEN_FILE={file}\n" in environment
    assert "ADAPTLAB_TOKEN=" not in environment, "the token of sbatch's shell is left out"
    arguments = (worker / "worker.args").read_text()
    assert arguments.startswith("worker --once --idle-timeout 300 --save-within 60 --queue gpu ")
    assert f" --server {shared_address.url} " in arguments
    assert secret not in arguments
    assert not file.exists(), "it is of no more use"


def test_a_job_has_one_queue_and_one_worker(
    client: Client, sessions: Sessions, invoke: Invoke, folder: Path
) -> None:
    job_id = str(new_job(sessions))
    of_job = ("sbatch-script", "--job", job_id, "--token-folder", str(folder / "tokens"))
    for more in (("--queue", "gpu"), ("--once",), ("--array", "0-9"), ("--submit", "job.yaml")):
        assert invoke(*of_job, *more).exit_code == 2, more
    assert invoke(*of_job, "--name", "x\nrm -rf /").exit_code == 2
    assert invoke("sbatch-script", "--token-hours", "3").exit_code == 2
    client.jobs.cancel(job_id)
    refused = invoke(*of_job)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "cancelled" in refused.stderr
    assert not (folder / "tokens").exists(), "no token was made"
    assert [one for one in client.tokens.list() if one.job] == []
    assert slurm.MOST_HOURS == batch_tokens.MOST_HOURS


@pytest.mark.parametrize("more", [(), ("--once",), ("--job", "JOB")])
def test_a_time_in_which_no_worker_gets_to_work_is_refused(
    more: tuple[str, ...], shared_invoke: Invoke, shared_sessions: Sessions, tmp_path: Path
) -> None:
    """Slurm would warn the worker at once, and the script requeue itself."""
    if "--job" in more:
        more = ("--job", str(new_job(shared_sessions)), "--token-folder", str(tmp_path / "tokens"))
    refused = shared_invoke("sbatch-script", "--time", "00:02:00", *more)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "00:05:00 or more" in refused.stderr
    assert not (tmp_path / "tokens").exists(), "no token was made"
    assert shared_invoke("sbatch-script", "--time", "00:05:00", *more).exit_code == 0


def test_values_cannot_leave_their_place(shared_invoke: Invoke, tmp_path: Path) -> None:
    hostile = ("--queue", "a b$(touch owned)'", "--server", "http://x;ls")
    printed = shared_invoke("sbatch-script", *hostile)
    assert printed.exit_code == 0, printed.stderr
    bash = ["/bin/bash", "-n", "-c", printed.stdout]
    subprocess.run(bash, check=True, timeout=60, cwd=tmp_path)
    words = next(line for line in printed.stdout.splitlines() if line.startswith("adaptlab worker"))
    assert shlex.split(words)[-6:-3] == ["a b$(touch owned)'", "--server", "http://x;ls"]
    for option in ("--name", "--partition", "--array", "--directive"):
        refused = shared_invoke("sbatch-script", option, "x\nrm -rf /")
        assert refused.exit_code == 2
        assert "not allowed in an #SBATCH line" in refused.stderr
    assert "not in Slurm's format" in shared_invoke("sbatch-script", "--time", "soon").stderr


def an_array() -> np.ndarray:
    return np.zeros((1, 1, 1, 5, 7), dtype=np.float16)
