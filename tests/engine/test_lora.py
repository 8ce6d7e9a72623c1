"""DoRA's start and gradient, and alpha as a scale of the start."""

from pathlib import Path

import pytest
import torch
from tests.engine.making import (
    SMALL_OF_EACH,
    Remembering,
    adaptation,
    base_tensors,
    items,
    trainables,
)

from adaptlab.engine.kernels import grouped
from adaptlab.engine.methods.lora import attach
from adaptlab.engine.models.model import Model
from adaptlab.engine.training.train import Training
from adaptlab.methods.lora import Lora
from adaptlab.plugins.shapes import ModelShape, Site


@pytest.mark.parametrize("family", ["minigpt", "gpt2", "llama"])
def test_dora_starts_from_the_base_also_at_a_tied_head(family: str):
    knobs = {"name": "lora", "rank": 2, "dora": True, "sites": ["attn", "mlp", "unembed"]}
    plan = adaptation(knobs, family=SMALL_OF_EACH[family], base_replicates=2)
    base, made = base_tensors(plan, 2), items(plan)
    model = Model(plan, base, trainables(plan, base).tensors)
    found = model.logits(made.tokens, slice(None))
    assert torch.allclose(found, model.base_logits(made.tokens, slice(None)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 3])
def test_the_gradient_holds_the_row_lengths_fixed(groups: int):
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    weight, x, wanted = random(groups, 4, 5), random(3, 2, 6, 5), random(3, 2, 6, 4)
    parts = {"s.a": random(3, 2, 5), "s.b": random(3, 4, 2), "s.magnitude": random(3, 4)}
    tensors = {name: tensor.requires_grad_() for name, tensor in parts.items()}
    shape = ModelShape("none", 5, 1, 1, 5, 6, 4, {"s": Site("s", "linear", 5, 4)})
    method = Lora(rank=2, alpha=3.0, sites=("s",), dora=True)
    hook = attach(method, shape, tensors).products["s"]
    found = hook(x, grouped.linear(x, weight, None), weight)
    expected = torch.zeros_like(found)
    for replicate in range(3):
        a, b, magnitude = (tensors[f"s.{name}"][replicate] for name in ("a", "b", "magnitude"))
        adapted = weight[replicate if groups > 1 else 0] + 1.5 * b @ a
        lengths = torch.linalg.norm(adapted, dim=1).detach()
        expected[replicate] = x[replicate] @ (adapted * (magnitude / lengths).unsqueeze(1)).T
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    trained = list(tensors.values())
    pairs = [torch.autograd.grad((y * wanted).sum(), trained) for y in (found, expected)]
    for ours, theirs in zip(*pairs, strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-11)


def test_alpha_is_a_scale_of_the_start_with_a_rate(tmp_path: Path):
    """So a grid of rates and initial scales is one of rates and alphas.

    Alpha times 9 is the initial scale times 3 with the learning rate times 3.
    """
    training = {"precision": "float64", "steps": 20, "batch_size": 8, "gradient_clip": 1e6}

    def trained(alpha: float, rate: float, scale: float) -> torch.Tensor:
        tuning = {"learning_rates": [rate], "initial_scales": [scale]}
        knobs = {"name": "lora", "rank": 2, "alpha": alpha}
        plan = adaptation(knobs, training=training, tuning=tuning)
        base, made = base_tensors(plan), items(plan)
        started = trainables(plan, base)
        model = Model(plan, base, started.tensors)
        Training(plan, model, started, Remembering()).run(tmp_path)
        return model.logits(made.tokens, slice(None)).detach()

    expected, found = trained(18, 0.01, 1), trained(2, 0.03, 3)
    assert torch.allclose(found, expected, rtol=0, atol=1e-4)
    assert (trained(2, 0.01, 1) - expected).abs().max() > 0.1
    assert (trained(2, 0.03, 1) - expected).abs().max() > 0.1
