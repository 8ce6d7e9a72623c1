"""Diagnoses of tiny models that a worker trains, and their controls."""

from collections.abc import Mapping
from typing import Any

import pytest

from adaptlab.comparisons.diagnosis import Diagnosis
from adaptlab_client import Client

pytestmark = pytest.mark.long("long trainings")

DIGITS = {"length": 4, "alphabet": 5}
UP, DOWN = ({"name": f"sort_{order}ending", **DIGITS} for order in ("asc", "desc"))
BASE = {
    "kind": "pretrain",
    "name": "why-base",
    "family": {"name": "minigpt", "layers": 1, "heads": 1, "width": 32},
    "task": UP,
    "training": {"steps": 500, "batch_size": 64, "learning_rate": 5e-3},
    "seeds": 3,
    "evaluation": {"samples": 200},
}
LORA = {"name": "lora", "label": "lora", "sites": ["attn", "mlp"]}


def a_study(name: str, steps: int, rates: Mapping[str, list[float]]) -> dict[str, Any]:
    methods = [
        {**(LORA if method == "lora" else {"name": method}), "tuning": {"learning_rates": tried}}
        for method, tried in rates.items()
    ]
    return {
        "name": name,
        "base_models": [BASE],
        "tasks": [DOWN],
        "methods": methods,
        "budgets": [600],
        "seeds": 3,
        "training": {"steps": steps, "batch_size": 64},
        "evaluation": {"samples": 200},
    }


def diagnosed(client: Client, study: str) -> Mapping[str, Diagnosis]:
    (table,) = client.studies.comparison(study).tables
    return {one.method: one.diagnosis for one in table.diagnoses}


def ended(client: Client, study: str) -> None:
    assert client.studies.wait(study, timeout=300).succeeded


GOOD = {"full_finetuning": [3e-3, 1e-2], "lora": [1e-2, 3e-2]}


@pytest.mark.parametrize(
    ("name", "steps", "rates", "subject", "cause"),
    [
        ("why-rates", 300, {**GOOD, "lora": [1e-4, 3e-4]}, "lora", "optimisation"),
        ("why-prefix", 300, {**GOOD, "prefix_tuning": [1e-2, 1.0]}, "prefix_tuning", "reach"),
        ("why-nothing", 10, {**GOOD, "prefix_tuning": [1e-2]}, "prefix_tuning", "undecided"),
    ],
)
def test_a_real_failure_is_decided_by_its_own_proposal(
    client: Client,
    name: str,
    steps: int,
    rates: Mapping[str, list[float]],
    subject: str,
    cause: str,
) -> None:
    client.studies.create(a_study(name, steps, rates))
    ended(client, name)
    before = client.studies.comparison(name).tables[0].comparison
    first = diagnosed(client, name)[subject]
    assert first.cause == "undecided"
    if first.next_run is not None:
        client.studies.extend(name, first.next_run)
        ended(client, name)
    last = diagnosed(client, name)[subject]
    assert (last.cause, last.next_run) == (cause, None), last
    assert (cause == "undecided") == ("cannot be decided here, because " in last.text)
    assert client.studies.comparison(name).tables[0].comparison == before
