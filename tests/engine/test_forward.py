"""The engine's forward pass against a plain model that shares nothing and slices nothing."""

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

from adaptlab.engine.digits import target_rows
from adaptlab.engine.model import Model
from adaptlab.families.minigpt import MiniGPT
from adaptlab.shapes import ModelShape

FAMILIES = (
    SMALL,
    MiniGPT(layers=1, heads=1, width=8),
    MiniGPT(layers=3, heads=3, width=9, attention_norm=False),
)


def one(tensors: dict[str, torch.Tensor], index: int) -> dict[str, torch.Tensor]:
    return {name: t[index if t.shape[0] > 1 else 0] for name, t in tensors.items()}


def plain_adapted(plan, base, trained, tokens: list[int]) -> torch.Tensor:
    """The adapted model by the plain formulas: one replicate, one sample."""
    shape: ModelShape = plan.shape
    weights = dict(base)
    if trained.keys() <= base.keys():
        return plain_logits(plan.family, {**base, **trained}, tokens)
    if plan.method.name == "ia3":
        for name, scale in trained.items():
            site = name.removesuffix(".scale")
            if site.endswith("down"):
                weights[f"{site}.weight"] = weights[f"{site}.weight"] * scale
            else:
                weights[f"{site}.weight"] = weights[f"{site}.weight"] * scale[:, None]
                weights[f"{site}.bias"] = weights[f"{site}.bias"] * scale
        return plain_logits(plan.family, weights, tokens)
    if plan.method.name == "adapter":

        def sublayer(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if name.split(".")[-1] not in plan.method.after:
                return y
            part = {n.split(".adapter.")[1]: t for n, t in trained.items() if n.startswith(name)}
            source = y if plan.method.placement == "serial" else x
            hidden = source @ part["down.weight"].T + part["down.bias"]
            hidden = torch.nn.functional.gelu(hidden, approximate="tanh")
            return y + hidden @ part["up.weight"].T + part["up.bias"]

        return plain_logits(plan.family, weights, tokens, sublayer=sublayer)
    if plan.method.name == "attention_bias":

        def mix(name: str, gathered: torch.Tensor) -> torch.Tensor:
            share = trained[f"{name}.mix.strength"].sigmoid()[:, : len(tokens)]  # H, T
            wide = share.T.repeat_interleave(plan.family.width // plan.family.heads, 1)
            return wide * trained[f"{name}.mix.shift"] + (1 - wide) * gathered

        return plain_logits(plan.family, weights, tokens, mix=mix)
    if plan.method.name == "lora":
        for site in plan.method.chosen_sites(shape):
            a, b = trained[f"{site.name}.a"], trained[f"{site.name}.b"]
            update = plan.method.alpha / plan.method.rank * b @ a
            weights[f"{site.name}.weight"] = weights[f"{site.name}.weight"] + update
        return plain_logits(plan.family, weights, tokens)
    if plan.method.name == "soft_prompt":
        return plain_logits(plan.family, weights, tokens, prompt=trained["embed.prompt"])
    prefixes = [trained[site.name] for site in shape.layer_sites("attention_input")]
    return plain_logits(plan.family, weights, tokens, prefixes=prefixes)


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
    {"name": "prefix_tuning", "length": 3},
    {"name": "soft_prompt", "length": 3},
)


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
