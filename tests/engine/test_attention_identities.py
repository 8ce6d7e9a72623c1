"""Equations 6 and 7 of the paper, and figures of patterns.

The equations are checked on the engine's own recordings.
"""

import math

import pytest
import torch
from tests.engine.making import adaptation, base_tensors, items, perturbed, trainables

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.model import Model
from adaptlab.theory.attention import (
    entropy,
    jensen_shannon,
    largest_deviation,
    learned_mass,
    relative_attention,
)


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("side", ["input", "key_value"])
def test_a_prefix_scales_content_attention_by_what_it_takes(length: int, side: str):
    plan = adaptation({"name": "prefix_tuning", "length": length, "side": side})
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    before, after = LayerRecorder(), LayerRecorder()
    model.base_logits(made.tokens, slice(None), before)
    model.logits(made.tokens, slice(None), after)
    content = made.tokens.shape[-1]
    taken = learned_mass(after.patterns[0], content).unsqueeze(-1)
    assert taken.min() > 0
    kept = after.patterns[0][..., -content:]
    assert torch.allclose(kept, before.patterns[0] * (1 - taken), atol=1e-12)
    recovered = relative_attention(after.patterns[0], content)
    assert largest_deviation(recovered, before.patterns[0]) < 1e-9
    assert largest_deviation(after.relative[0], before.patterns[0]) < 1e-12


def test_figures_of_known_patterns():
    even, sure = torch.full((4,), 0.25).double(), torch.tensor([1.0, 0, 0, 0]).double()
    other = torch.tensor([0, 1.0, 0, 0]).double()
    assert entropy(even).item() == pytest.approx(math.log(4))
    assert entropy(sure).item() == 0
    assert jensen_shannon(sure, other).item() == pytest.approx(math.log(2))
    assert jensen_shannon(even, even).item() == 0
    assert learned_mass(even, 3).item() == pytest.approx(0.25)
    assert relative_attention(even, 2).tolist() == [0.5, 0.5]
