"""Factors on attention to label words: the method's contract."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.making import (
    Remembering,
    base_tensors,
    formal,
    items,
    perturbed,
    qwen3,
    single,
    trainables,
)
from tests.texts import CLASSIFICATION, Stored, reviews, stored
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.models.context import Context
from adaptlab.engine.models.demonstrating import demonstrations
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.training.train import Training
from adaptlab.errors import InvalidSpec
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.family import Family
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.budget import budget_vector
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec

QUERY = {
    "name": "episodes", "kinds": 2, "words": 16, "shots": 0, "labels": "fixed", "map_seed": 1,
}  # fmt: skip
VOCABULARY, CONTEXT = 36, 23
METHOD = {"name": "anchor_reweighting", "demonstrations": 3}


def published() -> Family:
    """Return a model of the library with two heads per head of keys."""
    config = {"max_position_embeddings": CONTEXT, "vocab_size": VOCABULARY}
    family = qwen3(12, 8, 16)
    stored = dict(family.stored)
    stored |= dict.fromkeys(("model.embed_tokens.weight", "lm_head.weight"), (VOCABULARY, 12))
    return family.model_copy(update={"config": {**family.config, **config}, "stored": stored})


SMALL: dict[str, Family] = {
    "minigpt": MiniGPT(layers=2, heads=2, width=12),
    "pads": MiniGPT(layers=2, heads=2, width=12, pad_positions=2),
    "formal": formal(7, 6, 6),
    "gpt2": GPT2(layers=2, heads=2, width=12),
    "llama": Llama(layers=2, heads=2, key_value_heads=1, width=12, head_size=8, hidden=16),
    "transformers": published(),
}
every_family = pytest.mark.parametrize("family", SMALL)


def planned(family: str = "minigpt", **changes: Any) -> Plan:
    spec = {
        "base_model": "base",
        "task": QUERY,
        "method": METHOD,
        "training": {"precision": "float64", "steps": 2, "batch_size": 3, "validations": 1},
        "tuning": {"validation_samples": 4},
        **changes,
    }
    base = SMALL[family].resolved(VOCABULARY, CONTEXT)
    facts = BaseModelFacts(name="base", digest="0" * 64, family=base, task=None, replicates=2)
    return make_plan(resolve(AdaptSpec.model_validate(spec), facts), "cpu")


def adapted(plan: Plan, base: Mapping[str, Tensor], trained: Mapping[str, Tensor]) -> Model:
    """Return the model of a plan with one trial, with its demonstrations."""
    return Model(plan, base, trained, demonstrations(plan))


def trained_by(plan: Plan, base: Mapping[str, Tensor], folder: Path) -> Tensor:
    """Return the trained scalars [R, N] of a plan."""
    start = trainables(plan, dict(base))
    Training(plan, Model(plan, base, start.tensors), start, Remembering()).run(folder)
    return start.flat


@every_family
def test_declared_allocated_and_moved_scalars_are_one(family: str, tmp_path: Path):
    plan = planned(family)
    base = base_tensors(plan, 2)
    untouched = {name: tensor.clone() for name, tensor in base.items()}
    allocated = trainables(plan, base)
    assert plan.method is not None
    vector = budget_vector(plan.method, plan.shape, None)
    assert {n: t[0].numel() for n, t in allocated.tensors.items()} == vector.tensors
    assert vector.trainable_parameters == 2 * 2 * 3  # layers, heads, demonstrations
    assert vector.extra_context_tokens == 15
    moved = trained_by(plan, base, tmp_path) != 0
    assert moved.shape == (2, 12)
    assert moved.all()
    assert all(torch.equal(base[name], untouched[name]) for name in base)


@every_family
def test_it_begins_as_in_context_learning_and_detaching_restores_the_base(family: str):
    plan = planned(family, seeds=2)
    base, made = base_tensors(plan, 2), items(plan)
    start = trainables(plan, base).tensors
    shown_alone = {"name": "in_context", "demonstrations": 3}
    shown = adapted(planned(family, seeds=2, method=shown_alone), base, {}).answers(made)
    torch.testing.assert_close(adapted(plan, base, start).answers(made), shown)
    model = adapted(plan, base, perturbed(plan, start))
    assert not torch.allclose(model.answers(made), shown)
    alone = Model(plan, base, {}).base_logits(made.tokens, made.span)
    assert torch.equal(model.answers(made, attached=False), alone)
    other = plan.task.model_copy(update={"map_seed": 7})
    torch.testing.assert_close(model.answers(made, task=other), alone, rtol=0, atol=1e-12)


@every_family
def test_a_replicate_in_a_stack_trains_as_it_would_alone(family: str, tmp_path: Path):
    plan = planned(family, seeds=2, tuning={"trials": 2, "validation_samples": 4})
    base = base_tensors(plan, 2)
    stacked = trained_by(plan, base, tmp_path)
    for replicate in (1, 2):
        own = {name: tensor[[replicate // 2]] for name, tensor in base.items()}
        alone = trained_by(single(plan, replicate), own, tmp_path)
        assert torch.allclose(stacked[replicate], alone[0], rtol=0, atol=1e-10)
        assert (alone != 0).all()


@every_family
def test_gradients_agree_with_finite_differences(family: str):
    plan = planned(family)
    base, made = base_tensors(plan), items(plan, 2)
    start = perturbed(plan, trainables(plan, base).tensors)
    names = list(start)

    def loss(*tensors: Tensor) -> Tensor:
        logits = adapted(plan, base, dict(zip(names, tensors, strict=True))).answers(made)
        return functional.cross_entropy(logits.flatten(0, 2), made.targets.flatten())

    tensors = tuple(start[name].clone().requires_grad_() for name in names)
    assert torch.autograd.gradcheck(loss, tensors, fast_mode=True)


# Against a plain model


def plain_logits(
    base: Mapping[str, Tensor],
    tokens: list[int],
    scales: Mapping[int, Tensor],
    labels: Mapping[int, int],
    answering: set[int],
) -> Tensor:
    """Return logits [T, V] of a decoder of two heads, position by position.

    `scales` [H, K] are by layer, `labels` are the demonstrations by place.
    """
    w = {name: tensor[0] for name, tensor in base.items()}

    def norm(name: str, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape, w[f"{name}.weight"], w[f"{name}.bias"])

    def linear(name: str, x: Tensor) -> Tensor:
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    rows = [w["embed.weight"][t] + w["positions.weight"][i] for i, t in enumerate(tokens)]
    for layer in range(2):
        at, size = f"blocks.{layer}.attn", len(rows[0]) // 2
        normal = [norm(f"{at}.norm", row) for row in rows]
        q, k, v = ([linear(f"{at}.{part}", row) for row in normal] for part in "qkv")
        attended = []
        for i in range(len(rows)):
            heads = []
            for head in range(2):
                own = slice(head * size, (head + 1) * size)
                scores = torch.stack([q[i][own] @ k[j][own] for j in range(i + 1)])
                weights = (scores / size**0.5).softmax(0)
                out = torch.zeros(size, dtype=weights.dtype)
                for j in range(i + 1):
                    factor = torch.ones(())
                    if i in answering and j in labels:
                        factor = scales[layer][head, labels[j]].exp()
                    out = out + factor * weights[j] * v[j][own]
                heads.append(out)
            attended.append(linear(f"{at}.o", torch.cat(heads)))
        rows = [row + more for row, more in zip(rows, attended, strict=True)]
        mlp = f"blocks.{layer}.mlp"
        rows = [
            row
            + linear(
                f"{mlp}.down",
                functional.gelu(linear(f"{mlp}.up", norm(f"{mlp}.norm", row)), approximate="tanh"),
            )
            for row in rows
        ]
    return torch.stack([w["unembed.weight"] @ norm("final_norm", row) for row in rows])


def by_layer(trained: Mapping[str, Tensor], row: int) -> dict[int, Tensor]:
    return {layer: trained[f"blocks.{layer}.attn.mix.label_scales"][row] for layer in range(2)}


def test_it_agrees_with_a_plain_model_on_episodes():
    plan = planned(seeds=2)
    base, made = base_tensors(plan), items(plan)
    trained = perturbed(plan, trainables(plan, base).tensors)
    model = adapted(plan, base, trained)
    found = model.answers(made)
    assert isinstance(model.context, Context)
    for row in range(2):
        shown: list[int] = model.context.tokens[row].tolist()
        labels = {5 * place + 3: place for place in range(3)}  # two words, a separator, the label
        for item in range(3):
            tokens = [*shown, *made.tokens[row, item].tolist()]
            last = len(tokens) - 1
            expected = plain_logits(base, tokens, by_layer(trained, row), labels, {last})
            torch.testing.assert_close(found[row, item, 0], expected[last])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(60))


def test_it_agrees_with_a_plain_model_on_texts_of_different_lengths(data: Stored):
    spec = {
        "base_model": "base",
        "task": CLASSIFICATION,
        "method": METHOD,
        "training": {"precision": "float64", "steps": 1},
    }
    family = MiniGPT(layers=2, heads=2, width=8, vocabulary=257, context=200)
    facts = BaseModelFacts(name="base", digest="0" * 64, family=family, task=None, replicates=1)
    resolved = resolve(AdaptSpec.model_validate(spec), facts, data.datasets)
    plan = make_plan(resolved, "cpu", {}, data.source(None))
    base = base_tensors(plan)
    trained = perturbed(plan, trainables(plan, base).tensors)
    model = adapted(plan, base, trained)
    assert isinstance(model.context, Context)
    shown: list[int] = model.context.tokens[0].tolist()
    ends = [at for at in range(len(shown) - 1) if shown[at : at + 2] == [10, 10]]
    labels = {end - 1: place for place, end in enumerate(ends)}
    assert [chr(shown[at]) in "+-" for at in labels] == [True] * 3
    texts = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    made = texts.items(texts.of_split["test"][:1].unsqueeze(0))
    assert made.answer_rows is not None
    found = model.answers(made)
    asked = int(made.answer_rows[0, 0, 0]) + made.first + 1
    tokens = [*shown, *made.tokens[0, 0, :asked].tolist()]
    last = len(tokens) - 1
    expected = plain_logits(base, tokens, by_layer(trained, 0), labels, {last})
    torch.testing.assert_close(found[0, 0, 0], expected[last])


def test_a_model_that_reads_both_ways_is_refused():
    family = MiniGPT(layers=1, heads=2, width=12, attention="bidirectional")
    facts = BaseModelFacts(
        name="base", digest="0" * 64, family=family.resolved(VOCABULARY, CONTEXT),
        task=None, replicates=1,
    )  # fmt: skip
    spec = AdaptSpec.model_validate({"base_model": "base", "task": QUERY, "method": METHOD})
    with pytest.raises(InvalidSpec, match="anchor_reweighting needs a model that continues"):
        resolve(spec, facts)
