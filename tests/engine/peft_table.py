"""The table of docs/how-to/peft-adapters.md: every method against `peft`.

Run it with `python -m tests.engine.peft_table`. Each row compares logits on all models for which
the method has a form, and gradients on Llama, where tensors are the same under other names.
"""

import copy
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from tests.engine.library_models import MODELS as LIBRARY_MODELS
from tests.engine.peft_adapters import drawn, exported, written
from tests.engine.published import Pair, gpt2, llama, pair
from torch import Tensor

from adaptlab.engine.training.decomposed import companions_of
from adaptlab.errors import InvalidSpec, NoPeftForm
from adaptlab.exchange.peft_folder import published_model
from adaptlab.exchange.plugins import PEFT_FORMS, Numbers
from adaptlab.methods.c3a import C3a
from adaptlab.methods.hira import Hira
from adaptlab.methods.ia3 import IA3
from adaptlab.methods.layernorm_tuning import LayerNormTuning
from adaptlab.methods.llama_adapter import LlamaAdapter
from adaptlab.methods.loha import Loha
from adaptlab.methods.lora import Lora
from adaptlab.methods.miss import Miss
from adaptlab.methods.oft import Oft
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.plugins.method import Method
from adaptlab.specs.budget import solve

HEAD = """\
| Method | PEFT type | Compared on | Logits, gradients | In an exported folder |
| --- | --- | --- | --- | --- |
"""
MODELS = {
    "Llama": llama,
    "GPT-2": gpt2,
    "Qwen3": LIBRARY_MODELS["qwen3"],
    "Phi-3": LIBRARY_MODELS["phi3"],
    "OPT": LIBRARY_MODELS["opt"],
    "GPT-NeoX": LIBRARY_MODELS["gpt-neox"],
}
Sited = Callable[[tuple[str, ...]], Method]
METHODS: Mapping[str, tuple[Sited, ...]] = {
    "`lora`, also `rank_stabilised` or `dora`": (
        lambda sites: Lora(rank=2, alpha=3, sites=sites),
        lambda sites: Lora(rank=2, scaling="rank_stabilised", sites=sites),
        lambda sites: Lora(rank=2, dora=True, sites=sites),
    ),
    "`lora`, `pissa` or `olora`": (
        lambda sites: Lora(rank=2, initialisation="pissa", sites=sites).kept(),
    ),
    "`layernorm_tuning`": (lambda _: LayerNormTuning(),),
    "`ia3`": (lambda _: IA3(),),
    "`prefix_tuning`, `key_value`": (lambda _: PrefixTuning(length=3, side="key_value"),),
    "`soft_prompt`": (lambda _: SoftPrompt(length=3),),
    "`llama_adapter`": (lambda _: LlamaAdapter(length=3),),
    "`hira`": (lambda sites: Hira(rank=2, sites=sites),),
    "`miss`, also `bat`": (
        lambda sites: Miss(rank=3, sites=sites),
        lambda sites: Miss(rank=2, bat=True, sites=sites),
    ),
    "`loha`": (lambda sites: Loha(rank=2, alpha=3, sites=sites),),
    "`oft`": (lambda sites: Oft(block=4, sites=sites),),
    "`c3a`": (lambda sites: C3a(parts=5, sites=sites),),
}
SITES = ("o", "mlp.down")
NOTES = {
    "`lora`, also `rank_stabilised` or `dora`": "`overrides` are patterns; updates of a "
    "fused matrix are one, of the sum of their ranks",
    "`lora`, `pissa` or `olora`": "A plain LoRA of twice the rank, for the unchanged base",
    "`ia3`": "Unscaled sites of a fused matrix have ones",
    "`prefix_tuning`, `key_value`": "A reparameterisation is computed beforehand",
    "`llama_adapter`": "Llama and Mistral without biases; PEFT adds behind W_O of GPT-2",
    "`hira`": "No fused matrices; likewise all below",
    "`oft`": "The exact form; PEFT's default series turns the other way",
    "`c3a`": "PEFT's gradient of its input is wrong, by finite differences",
}


@dataclass(frozen=True)
class Row:
    """A method with the models on which it was compared.

    Differences are the largest, as shares of the largest logit or gradient.
    """

    method: str
    peft_type: str
    models: tuple[str, ...]
    logits: float
    gradients: float

    def __str__(self) -> str:
        others = [model for model in MODELS if model not in self.models]
        where = ", ".join(self.models) if len(others) > 1 else " but ".join(["all", *others])
        cells = (
            self.method,
            f"`{self.peft_type}`",
            where,
            f"{self.logits:.0e}, {self.gradients:.0e}",
            NOTES.get(self.method, ""),
        )
        return f"| {' | '.join(cells)} |".replace("  ", " ")


def row(name: str, pairs: Mapping[str, Pair]) -> Row:
    """Measure one method on the models for which it has a form."""
    models, kind, logits, gradients = list[str](), "", 0.0, 0.0
    for model, both in pairs.items():
        shape = both.ours.family.shape()
        sites = tuple(site for site in SITES if shape.matching_sites(site))
        try:
            methods = [solve(made(sites), shape, None) for made in METHODS[name]]
            found = [compare(both, each, with_gradients=model == "Llama") for each in methods]
        except (NoPeftForm, InvalidSpec):
            continue
        models.append(model)
        kind = found[0].peft_type
        logits = max(logits, *(each.logits for each in found))
        gradients = max(gradients, *(each.gradients for each in found))
    return Row(name, kind, tuple(models), logits, gradients)


def compare(both: Pair, method: Method, *, with_gradients: bool) -> Row:
    """Compare a method on one model."""
    tensors = drawn(method, both)
    files = exported(both, method, tensors)
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
    base = {name: tensor.unsqueeze(0) for name, tensor in both.ours.tensors.items()}
    frozen = companions_of(method, both.ours.family.shape(), base)
    ours = both.adapted(method, leaves | {name: tensor[0] for name, tensor in frozen.items()})
    with tempfile.TemporaryDirectory() as folder:
        place = written(Path(folder) / "adapter", files)
        model: Any = PeftModel.from_pretrained(copy.deepcopy(both.theirs), place).eval()
    pairs = list(_pairs(both, method, leaves, model)) if with_gradients else []
    theirs = model(both.tokens()).logits[:, -ours.shape[1] :]  # without virtual tokens
    found = _share(ours, theirs)
    kind = str(json.loads(files["adapter_config.json"])["peft_type"])
    if not pairs:
        return Row(method.name, kind, (), found, 0.0)
    target = torch.linspace(-1, 1, ours.numel()).view_as(ours)
    (ours * target).sum().backward()
    (theirs * target).sum().backward()
    own = _in_peft(both, method, leaves)
    gradients = max(_share(own[name], parameter.grad) for name, parameter in pairs)
    return Row(method.name, kind, (), found, gradients)


def _pairs(
    both: Pair, method: Method, leaves: Mapping[str, Tensor], model: Any
) -> Iterator[tuple[str, Any]]:
    """Yield stored names with PEFT's parameters, made trainable."""
    named = dict(model.named_parameters())
    for name in _stored(both, method, {n: leaf.detach() for n, leaf in leaves.items()}):
        stem = name.removesuffix(".weight")
        before, _, last = stem.rpartition(".")
        wanted = {
            *(stem, name, f"{stem}.default", f"{stem}.default.weight"),
            *(f"{before}.default.{last}", "prompt_encoder.default.embedding.weight"),
        }
        yield name, next(p for n, p in named.items() if n in wanted).requires_grad_()


def _in_peft(both: Pair, method: Method, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return our gradients in PEFT's form, which only names and joins tensors."""
    own = {n: leaf.grad for n, leaf in leaves.items() if leaf.grad is not None}
    return {n: torch.tensor(tensor) for n, tensor in _stored(both, method, own).items()}


def _stored(both: Pair, method: Method, tensors: Mapping[str, Tensor]) -> Mapping[str, Numbers]:
    base, model = both.ours.tensors, published_model(both.ours.family)
    numbers = {name: tensor.numpy() for name, tensor in tensors.items()}
    form = PEFT_FORMS.get(method.name)
    return form(method, model, numbers, lambda name: base[name].numpy()).tensors


def _share(ours: Tensor, theirs: Tensor) -> float:
    most = max(float(theirs.detach().abs().max()), 1e-12)
    return float((ours.detach() - theirs.detach()).abs().max()) / most


def rows() -> Iterator[Row]:
    """Measure all methods, each on models of its own."""
    for name in METHODS:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            yield row(name, {m: pair(make, place / m, double=False) for m, make in MODELS.items()})


if __name__ == "__main__":
    import sys

    sys.stdout.write(HEAD + "".join(f"{each}\n" for each in rows()))
