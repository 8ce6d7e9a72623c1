"""Exported base models, as `transformers` loads them."""

from pathlib import Path

import pytest
import torch
from tests.adapters import drawn as drawn_arrays
from tests.engine.peft_adapters import drawn, exported, loaded, lora, written
from tests.engine.published import Pair
from transformers import AutoModelForCausalLM

from adaptlab.engine.models.huggingface import PublishedModel
from adaptlab.errors import NoLibraryForm
from adaptlab.exchange.base_folder import base_folder
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama, Llama3Scaling
from adaptlab.families.minigpt import MiniGPT
from adaptlab.weights.huggingface import PublishedFamily
from adaptlab.weights.model_folder import check_folder

# peft 0.21 uses a property that transformers 5.23 has renamed; we can fix neither.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")

SCALING = Llama3Scaling(
    factor=8, low_frequency_factor=1, high_frequency_factor=4, original_context=16
)
FAMILIES: dict[str, PublishedFamily] = {
    "gpt2": GPT2(width=24, heads=3, hidden=40, norm_epsilon=1e-3),
    "gpt2-untied": GPT2(width=24, heads=3, tied_head=False),
    "llama": Llama(width=24, heads=4, key_value_heads=2, head_size=10, rotary_scaling=SCALING),
    "llama-biased": Llama(
        width=24, attention_biases="qkvo", mlp_biases=True, tied_head=True, rotary_base=500
    ),
    "qwen2": Llama(width=24, attention_biases="qkv"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_and_its_adapter_in_the_library(name: str, tmp_path: Path):
    family = FAMILIES[name].resolved(31, 40)
    arrays = {n: 0.3 * a for n, a in drawn_arrays(family.shape().tensors, 3).items()}
    folder = written(tmp_path / "base", base_folder(family, lambda tensor: arrays[tensor]))
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    both = Pair(theirs, PublishedModel(family, tensors), double=False)
    assert (both.logits() - both.expected().logits).abs().max() < 1e-5
    assert check_folder(folder).family.shape() == family.shape()
    method = lora("attn", "mlp", rank=2)(both).kept()
    given = drawn(method, both)
    adapted = loaded(both, exported(both, method, given), tmp_path / "adapter")
    with torch.no_grad():
        found = adapted(both.tokens()).logits
    assert (found - both.adapted(method, given)).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("family", "named"),
    [
        (MiniGPT(), "gpt2, llama, transformers"),
        (Llama(attention_biases="qkv", mlp_biases=True), "attention_biases: qkvo"),
    ],
)
def test_what_the_library_lacks(family: PublishedFamily, named: str):
    with pytest.raises(NoLibraryForm, match=named):
        base_folder(family.resolved(31, 40), lambda _: pytest.fail("a tensor was read"))
