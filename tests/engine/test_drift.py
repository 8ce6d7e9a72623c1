"""Drift on neutral texts: divergence from the base, nats and bytes."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import planned, pretraining
from tests.texts import COMPLETION, Stored, reviews, stored

from adaptlab.comparisons.drift import drifts
from adaptlab.engine.measuring.drift import text_bytes
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.measuring.measuring import statistics_of
from adaptlab.engine.models.model import Model
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.metric import METRICS
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import CheckpointWritten, Evaluated, Evaluation
from adaptlab.runs.item_statistics import from_text, unpacked
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import Resolved, spec_digest
from adaptlab.specs.spec import AdaptSpec

TASK: dict[str, Any] = {**COMPLETION, "tokens": {"longest": 64, "answer": 6}}
NEUTRAL: dict[str, Any] = {
    "name": "neutral_text",
    "dataset": "neutral",
    "tokens": {"longest": 60, "answer": 56},
}
PASSAGES, CHAPTERS, VOCABULARY = 24, 6, 257


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(200))


@pytest.fixture(scope="module")
def neutral(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Passages of six chapters, of unlike lengths and not only ASCII."""
    records = [
        {"text": "Ein schöner Tag "[: 4 + n % 12] + str(n), "chapter": str(n % CHAPTERS),
         "split": "test"}
        for n in range(PASSAGES)
    ]  # fmt: skip
    return stored(tmp_path_factory.mktemp("neutral"), records, "neutral")


@pytest.fixture(scope="module")
def base(data: Stored, tmp_path_factory: pytest.TempPathFactory) -> tuple[Resolved, list[Path]]:
    training = {"steps": 30, "batch_size": 16, "learning_rate": 0.01}
    spec = pretraining(data, TASK, training=training)
    told = Remembering()
    run(spec, (), tmp_path_factory.mktemp("base"), told, "cpu", datasets=(data.path,))
    return spec, [one.path for one in told.of(CheckpointWritten)]


def adapted(
    base: tuple[Resolved, list[Path]], data: Stored, neutral: Stored, folder: Path, **changes: Any
) -> list[Evaluation]:
    """Return the scores of two adapted seeds on task and passages."""
    facts = BaseModelFacts(
        name="base", digest=spec_digest(base[0]), family=base[0].family, task=None, replicates=2
    )
    document: dict[str, Any] = {
        "base_model": "base", "task": TASK, "method": "full_finetuning", "seeds": 2,
        "training": {"precision": "float64", "steps": 20, "batch_size": 16},
        "tuning": {"learning_rates": [0.01]},
        "evaluation": {"tasks": [TASK, NEUTRAL], "samples": 100, "shown": 30},
    }  # fmt: skip
    both = {**data.datasets, **neutral.datasets}
    spec = resolve(AdaptSpec.model_validate(document | changes), facts, both)
    told = Remembering()
    run(spec, base[1], folder, told, "cpu", datasets=(data.path, neutral.path))
    assert Expected.of(spec).problems(told.events) == ()
    return [one.evaluation for one in told.of(Evaluated)]


def columns(found: list[Evaluation], *, attached: bool) -> Mapping[int, NDArray[np.float64]]:
    """The statistics of passages by seed: divergence, nats, tokens, bytes."""
    return {
        one.seed: unpacked(from_text(one.measures[0].statistics or ""), PASSAGES, 4)
        for one in found
        if one.task["name"] == "neutral_text" and one.attached is attached
    }


def test_training_moves_the_model_away_from_its_base(
    base: tuple[Resolved, list[Path]], data: Stored, neutral: Stored, tmp_path: Path
) -> None:
    found = adapted(base, data, neutral, tmp_path)
    after, before = columns(found, attached=True), columns(found, attached=False)
    assert after.keys() == before.keys() == {0, 1}
    assert all((one[:, 0] > 0).all() for one in after.values())
    assert all((one[:, 0] == 0).all() for one in before.values())
    assert np.array_equal(after[0][:, 2:], before[0][:, 2:])
    (drift,) = drifts(found)
    assert drift.kl == pytest.approx(
        np.mean([o[:, 0].sum() / o[:, 2].sum() for o in after.values()])
    )
    bits = [
        (after[seed][:, 1] - before[seed][:, 1]).sum() / math.log(2) / after[seed][:, 3].sum()
        for seed in (0, 1)
    ]
    assert drift.bits_change == pytest.approx(np.mean(bits), rel=1e-4)
    assert (drift.clusters, drift.bytes) == (CHAPTERS, int(after[0][:, 3].sum()))


def test_an_untrained_random_prompt_shows_its_damage(
    base: tuple[Resolved, list[Path]], data: Stored, neutral: Stored, tmp_path: Path
) -> None:
    """A base measured with the fresh prompt attached would show no change."""
    found = adapted(
        base, data, neutral, tmp_path, method="soft_prompt", budget=64,
        training={"precision": "float64", "steps": 1, "batch_size": 16},
        tuning={"learning_rates": [1e-9], "initial_scales": [2.0]},
    )  # fmt: skip
    (drift,) = drifts(found)
    assert drift.kl > 0.01
    assert abs(drift.bits_change) > 1e-3


def test_a_method_that_changes_nothing_has_no_drift(
    base: tuple[Resolved, list[Path]], data: Stored, neutral: Stored, tmp_path: Path
) -> None:
    found = adapted(base, data, neutral, tmp_path, method="frozen", tuning={}, training={})
    (drift,) = drifts(found)
    assert (drift.kl, drift.bits_change) == (0.0, 0.0)
    totals = {str(one.task["name"]): one.total for one in found}
    assert totals["neutral_text"] == PASSAGES < totals["text_completion"], "few limit no other"


def test_a_uniform_model_has_exactly_the_logarithm_of_its_vocabulary(neutral: Stored) -> None:
    model = model_on(neutral, uniform=True)
    task = model.plan.evaluation_tasks()[-1]
    found = statistics_of(
        task, "test", METRICS.get("kl_from_base"), judged(model, task, "test", PASSAGES, 2)
    )
    vocabulary = model.plan.shape.vocabulary
    assert found[0, :, 1] == pytest.approx(found[0, :, 2] * math.log(vocabulary), rel=1e-12)


def test_targets_are_the_next_tokens(neutral: Stored) -> None:
    """The loss is that of each byte after those before it, by hand."""
    model = model_on(neutral, uniform=False)
    task = model.plan.evaluation_tasks()[-1]
    found = judged(model, task, "test", PASSAGES, 2)
    records = neutral.path.read_text().splitlines()
    expected: dict[int, float] = {}
    for line in records:
        text = line.split('"text":"')[1].split('"')[0] if '"text":"' in line else ""
        if not text:
            continue
        tokens = torch.tensor([[[*b"\n", *text.encode()]]]).expand(2, 1, -1)
        with torch.no_grad():
            logits = model.logits(tokens[..., :-1], slice(0, tokens.shape[-1] - 1))
        losses = torch.nn.functional.cross_entropy(logits[0, 0], tokens[0, 0, 1:], reduction="sum")
        expected[len(expected)] = float(losses)
    assert found.losses is not None
    assert sorted(found.losses[0].tolist()) == pytest.approx(sorted(expected.values()), rel=1e-9)
    sizes = text_bytes(task, "test", PASSAGES)
    assert sizes.sum() == sum(len(("Ein schöner Tag "[: 4 + n % 12] + str(n)).encode())
                              for n in range(PASSAGES))  # fmt: skip


def model_on(neutral: Stored, *, uniform: bool) -> Model:
    spec = pretraining(
        neutral,
        {**COMPLETION, "dataset": "neutral", "prompt": "{text}", "answer": {"field": "split"},
         "tokens": {"longest": 64, "answer": 6}},
        evaluation={"tasks": [NEUTRAL], "samples": 100, "shown": 30},
    )  # fmt: skip
    plan, model = planned(spec, neutral)
    if not uniform:
        return model
    return Model(plan, {}, {name: torch.zeros_like(one) for name, one in model.trained.items()})


def test_neutral_texts_are_watched_and_not_trained_on(neutral: Stored) -> None:
    with pytest.raises(InvalidSpec) as refused:
        pretraining(neutral, NEUTRAL)
    assert refused.value.problems[0].code == "empty_split"
