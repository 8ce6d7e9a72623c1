"""The examples, run as they are against a real stack."""

import pytest
from tests.whole.conftest import PATIENCE

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_client import Client, JobView

pytest.importorskip("optuna", reason="Optuna is not installed; `make setup` does, as the extra dev")
STEPS = 20
BASE = {
    "kind": "pretrain",
    "name": "searched",
    "family": {"name": "minigpt", "width": 16, "heads": 2},
    "task": {"name": "sort_ascending", "length": 4, "alphabet": 5},
    "training": {"steps": 120, "batch_size": 16},
    "seeds": 2,
    "evaluation": {"samples": 20},
}
ASKED = {
    "kind": "adapt",
    "base_model": "searched",
    "task": {"name": "sort_ascending", "length": 4, "alphabet": 5},
    "budget": 200,
    "training": {"steps": STEPS, "batch_size": 16},
    "evaluation": {"samples": 20},
}


@pytest.fixture(scope="module")
def base(client: Client) -> JobView:
    return client.jobs.wait(client.jobs.submit(BASE).id, timeout=PATIENCE)


@pytest.mark.long("long trainings")
@pytest.mark.parametrize("method", ["prefix_tuning", "lora"])
def test_a_search_with_optuna_finds_the_best_on_validation_with_equal_effort(
    client: Client, base: JobView, method: str
):
    from examples.search_with_optuna import search, validation_accuracy

    assert base.succeeded, base.error
    found = search(client, {**ASKED, "method": method}, 3)
    assert (found.suggestions, found.steps) == (3, 3 * 2 * STEPS)
    (tried,) = ResolvedSpec.model_validate(found.job.resolved_spec).training.trials
    assert list(tried.model_dump().values()) == list(found.settings.values())
    jobs = list(client.jobs.list(filter=f"method = {method} AND base_model = searched"))
    assert len(jobs) == 3
    accuracies = {validation_accuracy(client, job) for job in jobs}
    assert validation_accuracy(client, found.job) == max(accuracies) > 0
    assert len(accuracies) > 1
