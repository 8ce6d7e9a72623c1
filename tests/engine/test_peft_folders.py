"""Exported adapters: what `peft` computes with our folders, next to our engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.numpy import save
from tests.engine.library_models import MODELS as LIBRARY_MODELS
from tests.engine.library_models import architecture
from tests.engine.published import Pair, gpt2, llama, pair
from torch import Tensor
from transformers import PreTrainedModel

from adaptlab.exchange.peft_folder import peft_folder
from adaptlab.methods.ia3 import IA3
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning, Reparameterisation
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.plugins.method import Method

# peft 0.21 uses a property that transformers 5.23 has renamed; we can fix neither.
# It also warns that an adapter at a tied head cannot be merged, which nobody does here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning"),
]

MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "gpt2": gpt2,
    "llama": llama,
    **{name: LIBRARY_MODELS[name] for name in ("qwen3", "phi3", "opt", "gpt-neox", "mixtral")},
    "gemma3": architecture(
        "Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=8, sliding_window=64
    ),  # in peft a prefix falls out of a shorter window
}
FIRST_QKV, EACH_QKV = ("blocks.0.attn.q", "blocks.0.attn.qkv"), ("q", "v", "qkv")


def lora(*sites: str, **options: Any) -> Callable[[Pair], Lora]:
    """LoRA at those of the sites that a model has; GPT-NeoX has one for q, k and v."""

    def made(both: Pair) -> Lora:
        shape = both.ours.family.shape()
        existing = tuple(site for site in sites if shape.matching_sites(site))
        return Lora(alpha=3, sites=existing, **options)

    return made


METHODS: dict[str, Callable[[Pair], Method]] = {
    "lora": lora(*EACH_QKV, rank=2),
    "lora-everywhere": lora("attn", "mlp", rank=2),
    "lora-here-and-there": lora(*FIRST_QKV, "o", "blocks.1.attn", rank=3),
    "lora-head": lora("unembed", rank=2),
    "rank-stabilised": lora(*EACH_QKV, "down", rank=2, scaling="rank_stabilised"),
    "dora": lora(*EACH_QKV, rank=2, dora=True),
    "dora-everywhere": lora("attn", "mlp", rank=3, dora=True, scaling="rank_stabilised"),
    "ia3": lambda _: IA3(),
    "prefix": lambda _: PrefixTuning(length=3, side="key_value"),
    "reparameterised": lambda _: PrefixTuning(
        length=2, side="key_value", reparameterisation=Reparameterisation(hidden=5)
    ),
    "soft-prompt": lambda _: SoftPrompt(length=3),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chosen", METHODS)
def test_peft_computes_what_we_do(name: str, chosen: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path / "base", double=False)
    method = METHODS[chosen](both)
    tensors = drawn(method.kept(), both)
    plain, ours = both.logits(), both.adapted(method.kept(), tensors)
    model = loaded(both, exported(both, method, tensors), tmp_path / "adapter")
    with torch.no_grad():
        theirs = model(both.tokens()).logits[:, -ours.shape[1] :]  # without virtual tokens
    assert (ours - plain).abs().max() > 0.05
    assert (ours - theirs).abs().max() < 1e-5


def drawn(method: Method, both: Pair) -> dict[str, Tensor]:
    """Random tensors for a method, large enough to matter."""
    generator = torch.Generator().manual_seed(7)
    return {
        name: 0.5 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in method.tensors(both.ours.family.shape()).items()
    }


def exported(both: Pair, method: Method, tensors: dict[str, Tensor]) -> dict[str, bytes]:
    checkpoint = save({name: tensor.numpy() for name, tensor in tensors.items()})
    base = both.ours.tensors
    return peft_folder(both.ours.family, method, checkpoint, lambda name: base[name].numpy())


def loaded(both: Pair, files: dict[str, bytes], folder: Path) -> Any:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return PeftModel.from_pretrained(both.theirs, folder).eval()
