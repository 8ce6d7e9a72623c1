"""A measured study of texts, whose tasks have metrics beside the score."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ITEMS, Run, run_all
from tests.texts import CLASSIFICATION, COMPLETION, reviews

from adaptlab.plugins.metric import METRICS
from adaptlab.runs.events import Confusion, Measure
from adaptlab.runs.item_statistics import as_text, packed
from adaptlab.specs.spec import ResolvedSpec

RECORDS = reviews(150)
BY_F1: dict[str, Any] = {**COMPLETION, "metric": "token_f1"}
BY_PERPLEXITY: dict[str, Any] = {**COMPLETION, "metric": "perplexity"}
BY_MACRO_F1: dict[str, Any] = {**CLASSIFICATION, "metric": "macro_f1"}
SIGNATURE = "1|drawn"
TOKEN_F1 = 0.75
"""That of the seed 0; of every further one it is 0.02 higher."""
PERPLEXITY = 5.0
"""That of the seed 0; of every further one it is 1 higher."""
MAJORITY = 0.75
"""The share of the items of the classification that have the first label."""


def a_text_study(*tasks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a study of two methods on a new model of bytes."""
    return {
        "name": "texts",
        "base_models": [
            {
                "kind": "pretrain",
                "name": "reader",
                "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
                "task": {**COMPLETION, "tokens": {"longest": 64}},
                "seeds": 3,
            }
        ],
        "tasks": list(tasks),
        "methods": ["lora", "prefix_tuning"],
        "budgets": [64],
        "seeds": 3,
        "training": {"steps": 4},
        "evaluation": {"samples": 16},
    }


def measure(sessions: sessionmaker[Session]) -> None:
    """End all jobs; half of the items are right, of every label the first."""

    def run_of(spec: ResolvedSpec) -> Run:
        metrics = tuple(PERPLEXITY - trial for trial in range(len(spec.training.trials)))
        is_measured = (spec.task or {}).get("metric") == "perplexity"
        return Run(
            right=ITEMS // 2,
            metrics=metrics if is_measured else (),
            figures=lambda seed: _figures(spec, seed),
        )

    run_all(sessions, run_of)


def measured(name: str, statistics: ArrayLike) -> Measure:
    """A metric of items with these statistics, [item, column]."""
    table = np.asarray(statistics, np.float64)
    return Measure(
        metric=name,
        value=METRICS.get(name).value(table),
        statistics=as_text(packed(table)),
        signature=SIGNATURE,
    )


def _figures(spec: ResolvedSpec, seed: int) -> dict[str, Any]:
    metric = (spec.task or {}).get("metric")
    if metric == "token_f1":
        return {"measures": (measured("token_f1", [[TOKEN_F1 + 0.02 * seed]] * ITEMS),)}
    if metric == "perplexity":
        return {"loss": math.log(PERPLEXITY + seed)}
    if metric == "macro_f1":
        half, quarter = ITEMS // 2, ITEMS // 4
        counts = ((half, quarter), (quarter, 0))
        return {"confusion": Confusion(labels=("neg", "pos"), counts=counts)}
    return {}
