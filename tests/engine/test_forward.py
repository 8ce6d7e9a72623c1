"""The engine's forward pass against a plain model.

The plain model shares nothing and slices nothing.
"""

import math

import pytest
import torch
from tests.engine.making import (
    SMALL,
    adaptation,
    base_tensors,
    items,
    perturbed,
    trainables,
)
from tests.engine.plain import plain_logits

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.models.model import Model
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.shapes import ModelShape

FAMILIES = (
    SMALL,
    MiniGPT(layers=1, heads=1, width=8),
    MiniGPT(layers=3, heads=3, width=9, attention_norm=False),
)


def one(tensors: dict[str, torch.Tensor], index: int) -> dict[str, torch.Tensor]:
    return {name: t[index if t.shape[0] > 1 else 0] for name, t in tensors.items()}


def plain_adapted(plan, base, trained, tokens: list[int]) -> torch.Tensor:
    """The adapted model by the plain formulas: one replicate, one sample."""
    weights = dict(base)
    changes = plain_changes(plan, plan.method, weights, trained)
    return plain_logits(plan.family, weights, tokens, **changes)


def plain_changes(plan, method, weights, trained) -> dict:
    """Translate a method for the plain model: changed weights or additions."""
    shape: ModelShape = plan.shape
    rows = [trained[s.name] for s in shape.layer_sites("attention_input") if s.name in trained]
    match method.name:
        case "combine":
            changes: dict = {}
            for part in method.parts:
                start = f"{part.name}."
                own = {n.removeprefix(start): t for n, t in trained.items() if n.startswith(start)}
                changes |= plain_changes(plan, part, weights, own)
            return changes
        case "ia3":
            plain_scales(weights, trained)
        case "lora":
            plain_updates(method, shape, weights, trained)
        case "adapter":
            return {"sublayer": plain_adapter(method, trained)}
        case "attention_bias":
            return {"mix": plain_mix(plan.family, trained)}
        case "soft_prompt":
            return {"prompt": trained["embed.prompt"]}
        case "suffix_tuning":
            changes = {"answer_start": target_rows(plan.task).start}
            if method.scope == "input_only":
                return {"late_prompt": trained["embed.suffix"], **changes}
            return {"suffixes": rows, **changes}
        case "prefix_tuning":
            return {"prefixes": rows or plain_network(plan, trained)}
        case _:
            assert trained.keys() <= weights.keys()
            weights |= trained
    return {}


def plain_scales(weights, trained) -> None:
    for name, scale in trained.items():
        site = name.removesuffix(".scale")
        if site.endswith("down"):
            weights[f"{site}.weight"] = weights[f"{site}.weight"] * scale
        else:
            weights[f"{site}.weight"] = weights[f"{site}.weight"] * scale[:, None]
            weights[f"{site}.bias"] = weights[f"{site}.bias"] * scale


def plain_updates(method, shape: ModelShape, weights, trained) -> None:
    divisor = method.rank if method.scaling == "standard" else math.sqrt(method.rank)
    for site in method.chosen_sites(shape):
        a, b = trained[f"{site.name}.a"], trained[f"{site.name}.b"]
        weight = weights[f"{site.name}.weight"] + method.alpha / divisor * b @ a
        if method.dora:
            lengths = torch.stack([row.pow(2).sum().sqrt().detach() for row in weight])
            weight = torch.diag(trained[f"{site.name}.magnitude"] / lengths) @ weight
        weights[f"{site.name}.weight"] = weight


def plain_adapter(method, trained):
    def sublayer(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if name.split(".")[-1] not in method.after:
            return y
        part = {n.split(".adapter.")[1]: t for n, t in trained.items() if n.startswith(name)}
        source = y if method.placement == "serial" else x
        hidden = source @ part["down.weight"].T + part["down.bias"]
        hidden = torch.nn.functional.gelu(hidden, approximate="tanh")
        return y + hidden @ part["up.weight"].T + part["up.bias"]

    return sublayer


def plain_mix(family: MiniGPT, trained):
    def mix(name: str, gathered: torch.Tensor) -> torch.Tensor:
        share = trained[f"{name}.mix.strength"].sigmoid()[:, : len(gathered)]  # H, T
        wide = share.T.repeat_interleave(family.width // family.heads, 1)
        return wide * trained[f"{name}.mix.shift"] + (1 - wide) * gathered

    return mix


def plain_network(plan, trained) -> list[torch.Tensor]:
    """Return the output of Li and Liang's network, row by row.

    It is the prefixes of all layers beside each other.
    """
    down, below, up, above = (
        trained[f"reparameterisation.{name}"]
        for name in ("down.weight", "down.bias", "up.weight", "up.bias")
    )
    embedding = trained["reparameterisation.embedding"]
    made = torch.stack([up @ torch.tanh(down @ row + below) + above for row in embedding])
    width = plan.family.width
    return [made[:, layer * width : (layer + 1) * width] for layer in range(plan.family.layers)]


PREFIX = {"name": "prefix_tuning", "length": 2}
SUFFIX = {"name": "suffix_tuning", "length": 3}
LATE = {"name": "suffix_tuning", "length": 2, "scope": "input_only"}
LORA = {"name": "lora", "rank": 2, "sites": ["mlp", "v"]}
METHODS = (
    {"name": "full_finetuning"},
    {"name": "frozen"},
    {"name": "head_only"},
    {"name": "bitfit"},
    {"name": "layernorm_tuning"},
    {"name": "ia3"},
    {"name": "adapter", "bottleneck": 2, "after": ["attn", "mlp"]},
    {"name": "adapter", "bottleneck": 3, "placement": "parallel", "after": ["attn", "mlp"]},
    {"name": "attention_bias"},
    {"name": "lora", "rank": 2, "alpha": 3.0, "sites": ["attn", "mlp", "unembed"]},
    {
        "name": "lora",
        "rank": 3,
        "alpha": 2.0,
        "sites": ["attn", "mlp", "unembed"],
        "scaling": "rank_stabilised",
    },
    {"name": "lora", "rank": 2, "alpha": 3.0, "sites": ["attn", "mlp", "unembed"], "dora": True},
    {"name": "prefix_tuning", "length": 3},
    {"name": "prefix_tuning", "length": 3, "reparameterisation": {"hidden": 5}},
    {"name": "soft_prompt", "length": 3},
    {"name": "suffix_tuning", "length": 3},
    {"name": "suffix_tuning", "length": 3, "scope": "input_only"},
    {"name": "combine", "parts": [PREFIX, {"name": "lora", "rank": 2, "dora": True}]},
    {"name": "combine", "parts": [PREFIX, SUFFIX, "layernorm_tuning", LORA]},
    {"name": "combine", "parts": [SUFFIX, LORA, "ia3", {"name": "soft_prompt", "length": 3}]},
    {"name": "combine", "parts": [LATE, LORA, PREFIX]},
    {"name": "combine", "parts": [{"name": "soft_prompt", "length": 2}, LATE, "ia3"]},
    {"name": "combine", "parts": [{"name": "adapter", "bottleneck": 2}, "attention_bias"]},
)


@pytest.mark.long("every combination", but=30)
@pytest.mark.parametrize("family", FAMILIES, ids=["two-layers", "one-layer", "no-norm"])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m["name"])
@pytest.mark.parametrize("groups", [1, 2])
def test_adapted_logits_are_those_of_the_plain_model(family: MiniGPT, method: dict, groups: int):
    plan = adaptation(method, family=family, base_replicates=2, tuning={"trials": 2})
    base = base_tensors(plan, groups)
    trained = perturbed(plan, trainables(plan, base).tensors)
    model, made = Model(plan, base, trained), items(plan)
    found = model.logits(made.tokens, target_rows(plan.task))
    for replicate in range(plan.replicates):
        seed = replicate // plan.trials if groups > 1 else 0
        for sample in range(made.tokens.shape[1]):
            tokens = made.tokens[replicate, sample].tolist()
            plain = plain_adapted(plan, one(base, seed), one(trained, replicate), tokens)
            expected = plain[target_rows(plan.task)]
            assert torch.allclose(found[replicate, sample], expected, atol=1e-10)


def test_keys_and_values_learned_directly_are_those_of_a_prefix_row():
    inputs = adaptation({"name": "prefix_tuning", "length": 2})
    direct = adaptation({"name": "prefix_tuning", "length": 2, "side": "key_value"})
    assert isinstance(inputs.family, MiniGPT)
    base = base_tensors(inputs)
    rows = perturbed(inputs, trainables(inputs, base).tensors)
    pairs: dict[str, torch.Tensor] = {}
    for layer in range(inputs.family.layers):
        name = f"blocks.{layer}.attn"
        source = torch.nn.functional.layer_norm(
            rows[f"{name}.input"],
            (inputs.family.width,),
            base[f"{name}.norm.weight"][0],
            base[f"{name}.norm.bias"][0],
        )
        for part, key in (("k", "keys"), ("v", "values")):
            weight, bias = base[f"{name}.{part}.weight"][0], base[f"{name}.{part}.bias"][0]
            pairs[f"{name}.kv.{key}"] = source @ weight.T + bias
    made = items(inputs)
    expected = Model(inputs, base, rows).logits(made.tokens, slice(None))
    assert torch.allclose(
        Model(direct, base, pairs).logits(made.tokens, slice(None)), expected, atol=1e-12
    )
