"""The product as its users meet it: `adaptlab up` and a real engine."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import psycopg
import pytest
import redis
from safetensors import safe_open
from sqlalchemy import make_url
from tests.whole.conftest import PATIENCE, command

from adaptlab_client import Client, InvalidRequest, JobView
from adaptlab_stack.stack import Stack

SMALL_TASK = {"name": "sort_ascending", "length": 4, "alphabet": 5}
OTHER_TASK = {**SMALL_TASK, "name": "sort_descending"}
PRETRAIN = {
    "kind": "pretrain",
    "name": "small",
    "family": {"name": "minigpt", "width": 16, "heads": 2},
    "task": SMALL_TASK,
    "training": {"steps": 40, "batch_size": 16},
    "seeds": 2,
    "evaluation": {"samples": 100},
}
ADAPT = {
    "kind": "adapt",
    "base_model": "small",
    "task": OTHER_TASK,
    "method": "prefix_tuning",
    "budget": 40,
    "training": {"steps": 30, "batch_size": 16},
    "evaluation": {"samples": 100},
    "capture": {"attention": {"samples": 2}},
}
LONG = {**ADAPT, "training": {"steps": 3000, "batch_size": 16}}
ENDLESS = {**ADAPT, "training": {"steps": 100_000, "batch_size": 16}}


@pytest.fixture(scope="module")
def base(client: Client) -> JobView:
    return client.jobs.wait(client.jobs.submit(PRETRAIN).id, timeout=PATIENCE)


@pytest.fixture(scope="module")
def adapted(client: Client, base: JobView) -> JobView:
    assert base.succeeded, base.error
    return client.jobs.wait(client.jobs.submit(ADAPT).id, timeout=PATIENCE)


def test_results_maps_and_checkpoints_come_back(
    client: Client, base: JobView, adapted: JobView, tmp_path: Path
):
    assert adapted.succeeded, adapted.error
    assert adapted.budget is not None
    assert (adapted.budget.requested, adapted.budget.trainable_parameters) == (40, 32)
    evaluations = client.jobs.evaluations(adapted.id)
    assert [(e.task_name, e.attached, e.seed, e.total) for e in evaluations] == [
        (str(task["name"]), attached, seed, 100)
        for task in (SMALL_TASK, OTHER_TASK)
        for attached in (True, False)
        for seed in (0, 1)
    ]
    detached = client.jobs.evaluations(adapted.id, attached=False)[:2]
    assert [e.correct for e in detached] == [e.correct for e in client.jobs.evaluations(base.id)]
    curves = client.jobs.metrics(adapted.id)
    names = ("train_loss", "validation_accuracy", "validation_loss")
    assert {(c.name, c.replicate) for c in curves} == {(n, r) for n in names for r in (0, 1)}
    assert {curve.steps[-1] for curve in curves} == {30}
    for checkpoint in client.jobs.checkpoints(adapted.id):
        path = client.checkpoints.download(checkpoint, tmp_path / f"{checkpoint.seed}.safetensors")
        with safe_open(path, framework="np") as file:
            tensors = {name: file.get_tensor(name).shape for name in file.keys()}  # noqa: SIM118
        assert tensors == {"blocks.0.attn.input": (2, 16)}


def test_a_prefix_leaves_relative_attention_alone(client: Client, adapted: JobView):
    maps = client.jobs.attention(adapted.id)
    assert {(m.seed, m.source) for m in maps} == {
        (s, k) for s in (0, 1) for k in ("base", "adapted")
    }
    for found in maps:
        array = client.jobs.attention_array(adapted.id, found)
        assert array.shape == found.shape
        assert array.sum(-1) == pytest.approx(np.ones(array.shape[:-1]), abs=2e-3)
        if found.source == "adapted":
            assert found.learned_positions == 2
            assert all((s.relative_deviation or 0) < 1e-12 for s in found.summaries)
            assert all((s.learned_mass or 0) > 0 for s in found.summaries)


def test_a_bad_spec_stores_nothing(client: Client, base: JobView):
    before = len(list(client.jobs.list()))
    with pytest.raises(InvalidRequest, match="8") as caught:
        client.jobs.submit({**ADAPT, "budget": 8})
    assert "16" in str(caught.value)  # the nearest budget: one row of width 16
    assert len(list(client.jobs.list())) == before


def test_a_diverging_job_fails_with_its_reason_and_keeps_its_curve(client: Client, base: JobView):
    spec = {
        **ADAPT,
        "method": "full_finetuning",
        "budget": {},
        "training": {"steps": 300, "batch_size": 16, "learning_rate": 10, "weight_decay": 10},
    }
    job = client.jobs.wait(client.jobs.submit(spec).id, timeout=PATIENCE)
    assert (job.state, job.reason) == ("failed", "diverged")
    assert "Lower the learning rate" in str(job.error)
    values = client.jobs.metrics(job.id)[0].values
    assert values[0] is not None
    assert values[-1] is None


@pytest.mark.long("walks through commands and documents")
def test_the_command_line_finds_its_server(stack: Stack, adapted: JobView, tmp_path: Path):
    submitted = command(
        stack, "jobs", "submit", "-", "--wait", "--output", "id", stdin=json.dumps(ADAPT)
    )
    assert submitted.returncode == 0, submitted.stderr
    shown = command(stack, "jobs", "show", submitted.stdout.strip(), "--output", "json")
    assert json.loads(shown.stdout)["state"] == "succeeded"
    picture = tmp_path / "maps.png"
    drawn = command(stack, "attention", str(adapted.id), "--png", str(picture))
    assert drawn.returncode == 0, drawn.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    infeasible = command(stack, "jobs", "submit", "-", stdin=json.dumps({**ADAPT, "budget": 8}))
    assert infeasible.returncode == 3
    assert "16" in infeasible.stderr
    assert "Traceback" not in infeasible.stderr


def is_saved(stack: Stack, job: JobView) -> bool:
    """Whether a state is stored: a quick machine is at step 600 before."""
    url = make_url(stack.database_url).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        found = connection.execute("SELECT 1 FROM training_states WHERE job_id = %s", [job.id])
        return found.fetchone() is not None


@pytest.mark.timeout(1200)
def test_a_job_outlives_its_worker_and_finishes_once(
    stack: Stack, client: Client, base: JobView, eventually: Callable[[Callable[[], bool]], None]
):
    job = client.jobs.submit(LONG)
    eventually(lambda: client.jobs.get(job.id).progress.step > 600 and is_saved(stack, job))
    worker = psutil.Process(stack.processes["worker"].pid)
    trainers = worker.children(recursive=True)
    worker.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(trainers, timeout=60)
    assert not alive, "the trainer dies with its worker"
    done = client.jobs.wait(job.id, timeout=2 * PATIENCE)
    assert done.succeeded, done.error
    assert done.attempt >= 2, "more if the machine stood still for longer than a lease"
    assert [a.outcome for a in client.jobs.attempts(job.id)][-1] == "succeeded"
    assert len(client.jobs.evaluations(job.id)) == 8, "2 seeds, 2 tasks, attached and detached"
    assert len(client.jobs.checkpoints(job.id)) == 2
    assert "resumes after step" in stack.log("worker"), "it did not start from the first step"
    steps = client.jobs.metrics(job.id, names=["train_loss"], replicates=[0])[0].steps
    assert steps == (1, *range(15, 3001, 15)), "the curve has no seam"
    states = [event.type for event in client.jobs.events(job.id)]
    assert states.count("succeeded") == 1


def test_a_running_job_can_be_cancelled(
    client: Client, base: JobView, eventually: Callable[[Callable[[], bool]], None]
):
    job = client.jobs.submit(ENDLESS)
    eventually(lambda: client.jobs.get(job.id).progress.step > 5)
    client.jobs.cancel(job.id)
    ended = client.jobs.wait(job.id, timeout=PATIENCE)
    assert (ended.state, ended.terminal) == ("cancelled", True)


def test_the_broker_refused_nothing_that_the_parts_need(
    stack: Stack, adapted: JobView, eventually: Callable[[Callable[[], bool]], None]
):
    """The ACL log has refusals, as `stack/test_valkey_users.py` provokes."""
    with redis.Redis.from_url(stack.broker_url) as owner:

        def users() -> set[str]:
            return {connection["user"] for connection in owner.client_list()}

        eventually(lambda: {"adaptlab_api", "adaptlab_worker"} <= users())
        assert owner.acl_log() == []
