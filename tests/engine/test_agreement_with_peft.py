"""Methods against `peft` with equal weights.

The models are our own decoder and the library's. `peft` puts learned positions at 0 … P-1 and
content after them; here content keeps its own positions. Rotary models see only distances, so
nothing needs to be done; the reference of GPT-2 gets its table of positions moved by P rows, and
none for virtual tokens.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import (
    IA3Config,
    LoraConfig,
    PeftConfig,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
)
from peft.tuners.cartridge.utils import initialize_kv_prefix_from_past_key_values
from tests.engine.library_models import MODELS as LIBRARY_MODELS
from tests.engine.peft_adapters import make_room_for_learned_positions
from tests.engine.published import Pair, gpt2, llama, pair, qwen2, their_output
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TOKEN_STATES
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

MODELS = {
    "gpt2": gpt2,
    "llama": llama,
    "llama-tied": lambda: llama(num_key_value_heads=1, tie_word_embeddings=True),
    "qwen2": qwen2,
    "qwen3": LIBRARY_MODELS["qwen3"],
    "smollm3": LIBRARY_MODELS["smollm3"],
}
P = 3  # learned positions

FUSED = {"attn.q": 0, "attn.k": 1, "attn.v": 2}
GPT2_MODULES = {"attn.o": "attn.c_proj", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj"}

every_model = pytest.mark.parametrize("name", MODELS)
both_precisions = pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])


def drawn(method: Method, both: Pair) -> dict[str, Tensor]:
    """Random tensors for a method, large enough to matter."""
    generator = torch.Generator().manual_seed(7)
    dtype = torch.float64 if both.double else torch.float32
    return {
        name: (0.5 * torch.randn(t.shape, generator=generator, dtype=torch.float64)).to(dtype)
        for name, t in method.tensors(both.ours.family.shape()).items()
    }


def wrapped(both: Pair, config: PeftConfig) -> Any:
    """The reference with `peft` around it."""
    model = get_peft_model(both.theirs, config).eval()
    return model.double() if both.double else model


def tolerance(both: Pair) -> float:
    """Return the tolerance for rounding, of logits that reach 1 to 5.

    In float32 no method differs by more than 3e-6. The library's table of frequencies is in
    float32, also for float64 weights.
    """
    if not both.double:
        return 1e-5
    return 1e-6 if both.ours.family.name == "transformers" else 1e-10


def differences(both: Pair, model: Any, method: Method, tensors: Mapping[str, Tensor]) -> float:
    """Return the distance of the logits; the method must have changed them.

    Those of virtual tokens, which `peft` gives too, are left out.
    """
    theirs = their_output(model, both.tokens(), double=both.double).logits
    ours = both.adapted(method, tensors)
    assert (ours - both.logits()).abs().max() > 0.05
    return (ours - theirs[:, -ours.shape[1] :]).abs().max().item()


def module_of(model: Any, site: str) -> Any:
    """Return the module of `peft` for a site of ours."""
    found = re.fullmatch(r"blocks\.(\d+)\.(attn|mlp)\.(\w+)", site)
    if found is None:
        return model.base_model.model.lm_head
    layer, part = int(found[1]), f"{found[2]}.{found[3]}"
    inner = model.base_model.model
    if hasattr(inner, "transformer"):
        name = "attn.c_attn" if part in FUSED else GPT2_MODULES[part]
        return inner.transformer.h[layer].get_submodule(name)
    name = f"{'self_attn' if found[2] == 'attn' else 'mlp'}.{found[3]}_proj"
    return inner.model.layers[layer].get_submodule(name)


LORAS: dict[str, dict[str, Any]] = {
    "lora": {},
    "rank-stabilised": {"scaling": "rank_stabilised"},
    "dora": {"dora": True},
    "dora-rank-stabilised": {"dora": True, "scaling": "rank_stabilised"},
}


@pytest.mark.long("every combination", but="each")
@both_precisions
@every_model
@pytest.mark.parametrize("options", LORAS.values(), ids=LORAS)
def test_lora(name: str, double: bool, options: dict[str, Any], tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=double)
    is_gpt2 = name == "gpt2"
    rank, alpha = 2, 3
    sites = ("q", "k", "v", "attn.o", "mlp") if is_gpt2 else ("q", "v", "gate", "down", "unembed")
    method = Lora(rank=rank, alpha=alpha, sites=sites, **options)
    stabilised = method.scaling == "rank_stabilised"
    targets = ["c_attn", "c_proj", "c_fc"] if is_gpt2 else ["q_proj", "v_proj", "gate_proj"]
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=targets if is_gpt2 else [*targets, "down_proj", "lm_head"],
        fan_in_fan_out=is_gpt2,
        # q, k and v are one matrix there: three updates of rank r make one of rank 3r
        rank_pattern={"c_attn": 3 * rank} if is_gpt2 else {},
        alpha_pattern={"c_attn": (3**0.5 if stabilised else 3) * alpha} if is_gpt2 else {},
        use_rslora=stabilised,
        use_dora=method.dora,
        task_type="CAUSAL_LM",
    )
    model, tensors = wrapped(both, config), drawn(method, both)
    for module in model.modules():
        if hasattr(module, "lora_B"):
            module.lora_B["default"].weight.data.zero_()
    for site in (key.removesuffix(".a") for key in tensors if key.endswith(".a")):
        module, part = module_of(model, site), site.partition(".attn.")[2]
        a, b = module.lora_A["default"].weight.data, module.lora_B["default"].weight.data
        start = FUSED.get(f"attn.{part}", 0) if is_gpt2 else 0
        outputs = tensors[f"{site}.b"].shape[0]
        a[start * rank : (start + 1) * rank] = tensors[f"{site}.a"]
        b[start * outputs : (start + 1) * outputs, start * rank : (start + 1) * rank] = tensors[
            f"{site}.b"
        ]
        if method.dora:
            magnitude = module.lora_magnitude_vector["default"].weight.data
            magnitude[start * outputs : (start + 1) * outputs] = tensors[f"{site}.magnitude"]
    assert differences(both, model, method, tensors) < tolerance(both)


@both_precisions
@every_model
def test_ia3(name: str, double: bool, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=double)
    is_gpt2 = name == "gpt2"
    ours = ["c_attn", "mlp.c_proj"] if is_gpt2 else ["k_proj", "v_proj", "down_proj"]
    config = IA3Config(
        target_modules=ours,
        feedforward_modules=ours[-1:],
        fan_in_fan_out=is_gpt2,
        task_type="CAUSAL_LM",
    )
    method = IA3()
    model, tensors = wrapped(both, config), drawn(method, both)
    for key, scale in tensors.items():
        site = key.removesuffix(".scale")
        scales = module_of(model, site).ia3_l["default"].data
        if is_gpt2 and "attn" in site:  # queries, which come first, keep their scale of one
            start = FUSED[site.partition(".")[2].partition(".")[2]] * len(scale)
            scales.flatten()[start : start + len(scale)] = scale
        else:
            scales.copy_(scale.view_as(scales))
    assert differences(both, model, method, tensors) < tolerance(both)


@both_precisions
@every_model
def test_keys_and_values_of_a_prefix(name: str, double: bool, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=double)
    method = PrefixTuning(length=P, side="key_value")
    make_room_for_learned_positions(both, P)
    config = PrefixTuningConfig(num_virtual_tokens=P, task_type="CAUSAL_LM")
    model, tensors = wrapped(both, config), drawn(method, both)
    rows = torch.cat(list(tensors.values()), 1)  # keys, values of layer 0, keys, values of 1, …
    model.prompt_encoder["default"].embedding.weight.data.copy_(rows)
    assert differences(both, model, method, tensors) < tolerance(both)


@both_precisions
@every_model
def test_a_prefix_that_starts_as_tokens(name: str, double: bool, tmp_path: Path):
    """A prefix of `peft` starts with cached keys and values.

    They are those that the model caches for tokens.
    """
    both = pair(MODELS[name], tmp_path, double=double)
    if name == "gpt2":  # learned rows get no position here
        both.theirs.transformer.wpe.weight.data.zero_()
    tokens = torch.tensor([[4, 1, 7]])
    cached = their_output(both.theirs, tokens, double=double, use_cache=True).past_key_values
    config = PrefixTuningConfig(num_virtual_tokens=P, task_type="CAUSAL_LM")
    model = wrapped(both, config)
    theirs = initialize_kv_prefix_from_past_key_values(model, past_key_values=cached)
    weights = {name: tensor.unsqueeze(0) for name, tensor in both.ours.tensors.items()}
    family = both.ours.family
    states = ENGINE_TOKEN_STATES.get(family.name)(
        family, weights, weights["embed.weight"][:, tokens[0]]
    )
    method = PrefixTuning(length=P, side="key_value", initialisation="vocabulary")
    rows = torch.cat([states[name][0] for name in method.tensors(family.shape())], 1)
    assert rows.abs().max() > 0.05
    assert (rows - theirs).abs().max() < tolerance(both)


# peft makes the rows that go into the network as wide as the keys, adaptlab as wide as the model:
# the same thing only where the two are equal.
@both_precisions
def test_the_network_behind_keys_and_values(double: bool, tmp_path: Path):
    both = pair(gpt2, tmp_path, double=double)
    make_room_for_learned_positions(both, P)
    config = PrefixTuningConfig(
        num_virtual_tokens=P,
        prefix_projection=True,
        encoder_hidden_size=5,
        task_type="CAUSAL_LM",
    )
    model = wrapped(both, config)
    encoder = model.prompt_encoder["default"]
    network = Reparameterisation(hidden=5)
    method = PrefixTuning(length=P, side="key_value", reparameterisation=network)
    tensors = drawn(method, both)
    for theirs, ours in (
        (encoder.embedding.weight, "embedding"),
        (encoder.transform[0].weight, "down.weight"),
        (encoder.transform[0].bias, "down.bias"),
        (encoder.transform[2].weight, "up.weight"),
        (encoder.transform[2].bias, "up.bias"),
    ):
        theirs.data.copy_(tensors[f"reparameterisation.{ours}"])
    assert differences(both, model, method, tensors) < tolerance(both)


@both_precisions
@every_model
def test_soft_prompt(name: str, double: bool, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=double)
    method = SoftPrompt(length=P)
    make_room_for_learned_positions(both, P)
    config = PromptTuningConfig(num_virtual_tokens=P, task_type="CAUSAL_LM")
    model, tensors = wrapped(both, config), drawn(method, both)
    model.prompt_encoder["default"].embedding.weight.data.copy_(tensors["embed.prompt"])
    assert differences(both, model, method, tensors) < tolerance(both)
