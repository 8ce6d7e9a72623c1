"""Adapters with random tensors, and the folders that we export them to.

The adapters are given by method.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors.numpy import save
from tests.engine.published import Pair
from torch import Tensor

from adaptlab.exchange.adapter_folder import read_adapter
from adaptlab.exchange.peft_adapter import imported_adapter
from adaptlab.exchange.peft_folder import peft_folder
from adaptlab.exchange.plugins import AttachedAdapter, Numbers
from adaptlab.methods.ia3 import IA3
from adaptlab.methods.layernorm_tuning import LayerNormTuning
from adaptlab.methods.lora import Lora, SitesOverride
from adaptlab.methods.prefix_tuning import PrefixTuning, Reparameterisation
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.plugins.method import Method

FIRST_QKV, EACH_QKV = ("blocks.0.attn.q", "blocks.0.attn.qkv"), ("q", "v", "qkv")


def lora(*sites: str, **options: Any) -> Callable[[Pair], Lora]:
    """Return a function that makes LoRA at sites of a model.

    The sites are those of the given ones that the model has. GPT-NeoX has one for q, k and v.
    """

    def made(both: Pair) -> Lora:
        shape = both.ours.family.shape()
        existing = tuple(site for site in sites if shape.matching_sites(site))
        return Lora(alpha=3, sites=existing, **options)

    return made


BY_SITE = (
    SitesOverride(sites=("blocks.1",), rank=3, alpha=5),
    SitesOverride(sites=("o",), rank=1, alpha=7),
)
METHODS: dict[str, Callable[[Pair], Method]] = {
    "lora": lora(*EACH_QKV, rank=2),
    "lora-everywhere": lora("attn", "mlp", rank=2),
    "lora-here-and-there": lora(*FIRST_QKV, "o", "blocks.1.attn", rank=3),
    "lora-head": lora("unembed", rank=2),
    "rank-stabilised": lora(*EACH_QKV, "down", rank=2, scaling="rank_stabilised"),
    "dora": lora(*EACH_QKV, rank=2, dora=True),
    "dora-everywhere": lora(
        "attn", "mlp", rank=3, dora=True, scaling="rank_stabilised", overrides=BY_SITE[1:]
    ),
    "lora-by-site": lora(*EACH_QKV, "o", rank=2, overrides=BY_SITE),
    "ia3": lambda _: IA3(),
    "norms": lambda _: LayerNormTuning(),
    "prefix": lambda _: PrefixTuning(length=3, side="key_value"),
    "reparameterised": lambda _: PrefixTuning(
        length=2, side="key_value", reparameterisation=Reparameterisation(hidden=5)
    ),
    "soft-prompt": lambda _: SoftPrompt(length=3),
}


def drawn(method: Method, both: Pair, classes: int | None = None) -> dict[str, Tensor]:
    """Random tensors for a method, large enough to matter."""
    generator = torch.Generator().manual_seed(7)
    family = both.ours.family
    shape = family.shape() if classes is None else family.shape_with_classes(classes)
    return {
        name: 0.5 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in method.trained(shape).items()
    }


def exported(
    both: Pair, method: Method, tensors: Mapping[str, Tensor], classes: int | None = None
) -> dict[str, bytes]:
    """The files of the PEFT folder of an adapter."""
    checkpoint = save({name: tensor.numpy() for name, tensor in tensors.items()})
    base = both.ours.tensors

    def numbers(name: str) -> Numbers:
        return base[name].numpy()

    labels = [str(number) for number in range(classes or 0)]
    return peft_folder(both.ours.family, method, checkpoint, numbers, labels=labels)


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    """The folder with these files, which is made."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def loaded(both: Pair, files: Mapping[str, bytes], folder: Path) -> Any:
    """The library's model with an adapter's files, as `peft` loads them."""
    return PeftModel.from_pretrained(both.theirs, written(folder, files)).eval()


def llama_module(model: Any, site: str) -> Any:
    """Return the module of a Llama in `peft` for a site of ours."""
    _, layer, sublayer, part = site.split(".")
    name = f"{'self_attn' if sublayer == 'attn' else 'mlp'}.{part}_proj"
    return model.base_model.model.model.layers[int(layer)].get_submodule(name)


def imported(both: Pair, folder: Path) -> AttachedAdapter:
    """The adapter of a folder as the engine attaches it."""
    base = both.ours.tensors
    return imported_adapter(both.ours.family, read_adapter(folder), lambda name: base[name].numpy())


def logits(both: Pair, adapter: AttachedAdapter) -> Tensor:
    """The engine's logits with an imported adapter."""
    tensors = {name: torch.tensor(tensor) for name, tensor in adapter.tensors.items()}
    return both.adapted(adapter.method, tensors)


def make_room_for_learned_positions(both: Pair, length: int = 3) -> None:
    """Shift GPT-2's position vectors by `length`.

    The first positions have none.
    """
    if both.ours.family.name != "gpt2":
        return
    table = both.theirs.transformer.wpe.weight.data
    table.copy_(torch.cat([torch.zeros_like(table[:length]), table[:-length]]))
