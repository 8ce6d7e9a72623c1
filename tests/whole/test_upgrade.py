"""The commands of the page on upgrades, with a running and a queued job."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.whole.conftest import PATIENCE, a_folder

from adaptlab_client import Client, JobView
from adaptlab_stack.stack import stop

pytestmark = pytest.mark.long("every migration path")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/upgrade.md").read_text()
LEAVE, START, CHECK, GO_BACK = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
DRAIN, LEAVE = re.split(r"(?=\.venv/bin/adaptlab backup)", LEAVE)
STEPS = (8_000, 40_000, 200_000)
"""The job that runs is longer where a shorter one was over before the workers were drained."""


def run(script: str, folder: Path) -> None:
    """Run commands of the page as a user does, who has set nothing."""
    known = {k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=known, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def pretrain(name: str, steps: int) -> dict[str, object]:
    return {
        "kind": "pretrain",
        "name": name,
        "family": {"name": "minigpt", "width": 8},
        "task": {"name": "sort_ascending", "length": 4, "alphabet": 4},
        "training": {"steps": steps, "batch_size": 4},
        "evaluation": {"samples": 10},
    }


def client_of(data: Path) -> Client:
    server = re.search(r'"url": "(.*?)"', (data / "server.json").read_text())
    assert server is not None
    return Client(server[1], (data / "token").read_text().strip())


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Drained(NamedTuple):
    """What two jobs were when the workers were drained."""

    steps: int
    long: JobView
    waiting: JobView


class Upgraded(NamedTuple):
    """A server after the upgrade, with its two jobs."""

    folder: Path
    steps: int
    left_at: int
    waiting_was: str
    long: JobView
    waiting: JobView


def drained_midway(client: Client, folder: Path) -> Drained:
    """Drain the workers while one job runs and another waits."""
    for steps in STEPS:
        long = client.jobs.submit(pretrain(f"long-{steps}", steps)).id
        waiting = client.jobs.submit(pretrain(f"waiting-{steps}", 2)).id
        wait(lambda job=long: (client.jobs.get(job).progress.step or 0) >= 1)
        run(DRAIN, folder)
        drained = Drained(steps, client.jobs.get(long), client.jobs.get(waiting))
        if drained.long.state == "queued":
            return drained
        run(".venv/bin/adaptlab reload", folder)
    pytest.fail(f"{STEPS[-1]} steps were over before the workers were drained")


@pytest.fixture(scope="module")
def upgraded() -> Iterator[Upgraded]:
    with a_folder("upgraded") as folder:
        (folder / ".venv").symlink_to(Path(sys.prefix))
        data = folder / ".adaptlab"
        try:
            run(START, folder)
            with client_of(data) as client:
                drained = drained_midway(client, folder)
            run(LEAVE, folder)
            run(START, folder)
            run(CHECK, folder)
            with client_of(data) as client:
                both = (drained.long, drained.waiting)
                ended = [client.jobs.wait(one.id, timeout=PATIENCE) for one in both]
            left_at = drained.long.progress.step or 0
            yield Upgraded(folder, drained.steps, left_at, drained.waiting.state, *ended)
        finally:
            for one in (data, folder / ".adaptlab-before"):
                stop(one, PATIENCE)


def test_a_running_job_goes_on_after_the_upgrade_and_is_done_once(upgraded: Upgraded) -> None:
    assert 0 < upgraded.left_at < upgraded.steps
    assert upgraded.long.succeeded, upgraded.long.error
    with client_of(upgraded.folder / ".adaptlab") as client:
        attempts = client.jobs.attempts(upgraded.long.id)
        assert [one.outcome for one in attempts] == ["released", "succeeded"]
        (resumed,) = (
            event.data["resumed_from_step"]
            for event in client.jobs.events_so_far(upgraded.long.id)
            if event.type == "running" and event.attempt == 2
        )
        assert isinstance(resumed, int)
        assert upgraded.left_at <= resumed < upgraded.steps, (
            "what was shown is of the last heartbeat"
        )
        (losses,) = client.jobs.metrics(upgraded.long.id, names=["train_loss"])
    assert len(losses.steps) == len(set(losses.steps)), "no step is reported twice"


def test_a_job_that_waited_is_neither_lost_nor_done_twice(upgraded: Upgraded) -> None:
    assert upgraded.waiting_was == "queued"
    assert upgraded.waiting.succeeded, upgraded.waiting.error
    with client_of(upgraded.folder / ".adaptlab") as client:
        attempts = client.jobs.attempts(upgraded.waiting.id)
        assert [one.outcome for one in attempts] == ["succeeded"]


def test_going_back_restores_the_jobs_as_they_were_drained(upgraded: Upgraded) -> None:
    run(GO_BACK, upgraded.folder)
    data = upgraded.folder / ".adaptlab-before"
    wait((data / "server.json").exists)
    with client_of(data) as client:
        assert client.jobs.get(upgraded.long.id).state in {"queued", "running"}
        assert client.jobs.get(upgraded.waiting.id).state in {"queued", "running", "succeeded"}
        assert client.jobs.attempts(upgraded.long.id)[0].outcome == "released"
