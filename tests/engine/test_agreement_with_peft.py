"""Methods against `peft` with equal weights.

The models are our own decoder and the library's. `peft` puts learned positions at 0 … P-1 and
content after them; here content keeps its own positions. Rotary models see only distances, so
nothing needs to be done; the reference of GPT-2 gets its table of positions moved by P rows, and
none for virtual tokens.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import (
    PeftConfig,
    PrefixTuningConfig,
    get_peft_model,
)
from peft.tuners.cartridge.utils import initialize_kv_prefix_from_past_key_values
from tests.engine.library_models import MODELS as LIBRARY_MODELS
from tests.engine.peft_adapters import make_room_for_learned_positions
from tests.engine.published import Pair, gpt2, llama, pair, qwen2, their_output
from torch import Tensor

from adaptlab.engine.plugins import ENGINE_TOKEN_STATES
from adaptlab.methods.prefix_tuning import PrefixTuning, Reparameterisation
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
