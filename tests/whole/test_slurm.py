"""The printed scripts on a real Slurm, at `scancel` and the time limit."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.making import a_pretrain_document
from tests.whole.conftest import command
from tests.whole.slurm_of_one_node import Slurm, missing_programs, slurm_in

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.long("real Slurm")]
Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture(scope="module")
def slurm(stack: Stack) -> Iterator[Slurm]:
    """A Slurm whose batch jobs find `adaptlab` and a worker's token."""
    if missing := missing_programs():
        if os.environ.get("CI"):
            pytest.fail(f"CI installs slurm-wlm, and {', '.join(missing)} is missing")
        pytest.skip(f"{', '.join(missing)} not installed (Debian: slurm-wlm)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "ADAPTLAB_TOKEN": stack.token,
            "ADAPTLAB_TRAINER_USER": "same",  # the folder is closed to everybody else
            "ADAPTLAB_HEARTBEAT_SECONDS": "1",
            "TMPDIR": name,
        }
        with slurm_in(folder, environment) as running:
            yield running


def submitted(stack: Stack, client: Client, slurm: Slurm) -> tuple[str, str]:
    """A job that runs until it is stopped, and its batch job's number."""
    document = a_pretrain_document(seeds=1, training={"steps": 1_000_000, "batch_size": 4})
    job = client.jobs.submit({**document, "resources": {"queue": "slurm"}})
    return str(job.id), batch_job(stack, slurm, "--until auto", "")


def batch_job(stack: Stack, slurm: Slurm, word: str = "", instead: str = "") -> str:
    """The number of a submitted worker, whose script has a word replaced."""
    options = ("--queue", "slurm", "--server", stack.url, "--time", "00:05:00")
    printed = command(stack, "sbatch-script", *options)
    assert printed.returncode == 0, printed.stderr
    assert word in printed.stdout
    (slurm.folder / "worker.sbatch").write_text(printed.stdout.replace(word, instead))
    return slurm.call("sbatch", "--parsable", "--output=%j.log", "worker.sbatch")


def log_of(slurm: Slurm, number: str) -> str:
    return (slurm.folder / f"{number}.log").read_text()


@pytest.mark.parametrize("options", [(), ("--full", "--signal=TERM")], ids=["plain", "full"])
def test_scancel_saves_what_ran_and_nothing_is_requeued(
    stack: Stack, client: Client, slurm: Slurm, eventually: Eventually, options: tuple[str, ...]
) -> None:
    """Either signal reaches the script and the worker at once.

    The script passes it on.
    """
    job, number = submitted(stack, client, slurm)
    eventually(lambda: client.jobs.get(job).progress.step > 0)
    slurm.call("scancel", *options, number)
    eventually(lambda: client.jobs.get(job).state == "queued")
    (attempt,) = client.jobs.attempts(job)
    assert attempt.outcome == "released", log_of(slurm, number)
    eventually(lambda: slurm.state(number)["JobState"] in ("CANCELLED", "FAILED"))
    assert "exit status 75" in log_of(slurm, number)
    assert slurm.state(number)["Restarts"] == "0"
    client.jobs.cancel(job)


def test_before_the_end_of_its_time_a_batch_job_saves_what_runs_and_is_requeued(
    stack: Stack, client: Client, slurm: Slurm, eventually: Eventually
) -> None:
    job, number = submitted(stack, client, slurm)
    eventually(lambda: client.jobs.get(job).progress.step > 0)
    slurm.call("scancel", "--batch", "--signal=USR1", number)
    eventually(lambda: client.jobs.get(job).state == "queued")
    assert [one.outcome for one in client.jobs.attempts(job)] == ["released"]
    eventually(lambda: slurm.state(number)["Restarts"] == "1")
    slurm.call("scancel", number)
    client.jobs.cancel(job)


def test_a_worker_knows_when_its_batch_job_ends(
    stack: Stack, slurm: Slurm, eventually: Eventually
) -> None:
    number = batch_job(stack, slurm)
    eventually(lambda: slurm.state(number)["JobState"] in ("COMPLETED", "FAILED"))
    log = log_of(slurm, number)
    assert "exit status 0" in log
    assert "the end is unknown" not in log
