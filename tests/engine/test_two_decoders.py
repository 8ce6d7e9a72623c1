"""GPT-2 and Llama by our own decoder and by the library.

Each of the two is a test of the other. Both attach every method by code of their own: here a stream
for learned positions, there positions before the content and a mask.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.engine.making import ANYWHERE, VARIANTS, sized
from tests.engine.published import gpt2, llama, pair
from torch import Tensor
from transformers import PreTrainedModel

from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_METHODS
from adaptlab.engine.training.decomposed import companions_of
from adaptlab.families.transformers import Transformers
from adaptlab.plugins.family import Family

COPIES_OF_THE_BASE = {
    "bitfit",
    "from_scratch",
    "frozen",
    "full_finetuning",
    "head_only",
    "layernorm_tuning",
    "pinned_finetuning",
}
"""Methods whose tensors have the names of the base's, which differ for norms."""
ADDING = sorted(
    name
    for name in (*ANYWHERE, *VARIANTS)
    if name not in COPIES_OF_THE_BASE and "network" not in name
)


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("name", ADDING)
@pytest.mark.parametrize("make", [gpt2, llama], ids=["gpt2", "llama"])
def test_a_method_does_the_same_to_both(
    make: Callable[[], PreTrainedModel], name: str, tmp_path: Path
):
    both = pair(make, tmp_path, double=True)
    state = both.theirs.state_dict()
    shapes = {key: tuple(tensor.shape) for key, tensor in both.theirs.named_parameters()}
    config = json.loads((tmp_path / "config.json").read_text())
    library = Transformers.from_published(type(both.theirs).__name__, config, shapes)
    shape, places = library.shape(), library.published_tensors()

    def stored(tensor: str) -> Tensor:
        place = places[tensor]
        return place.part_of(state[place.name], shape.rows_of(tensor)).unsqueeze(0)

    method = sized(name)
    generator = torch.Generator().manual_seed(7)
    tensors = {
        key: 0.5 * torch.randn(2, *t.shape, generator=generator, dtype=torch.float64)
        for key, t in method.tensors(shape).items()
    }
    ours = both.ours.family
    assert tensors.keys() == method.tensors(ours.shape()).keys()
    attach, tokens = ENGINE_METHODS.get(method.name), both.tokens().unsqueeze(0)
    own_weights = {key: tensor.unsqueeze(0) for key, tensor in both.ours.tensors.items()}
    library_weights = {key: stored(key) for key in shape.tensors}

    def logits(family: Family, weights: Mapping[str, Tensor]) -> Tensor:
        own = tensors | companions_of(method, family.shape(), weights)
        attached = attach(method, family.shape(), own)
        attached = replace(attached, answer_start=4, replicates=2)
        forward = ENGINE_FAMILIES.get(family.name)
        return forward(family, weights, tokens, attached, slice(None))

    found, expected = logits(library, library_weights), logits(ours, own_weights)
    assert found.shape == expected.shape
    assert (found - expected).abs().max() < 1e-7
    assert (expected[0] - expected[1]).abs().max() > 1e-2
