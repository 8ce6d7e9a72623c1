"""Readings of a configuration, against the library's own model."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.engine.library_models import MODELS as OF_LIBRARY
from tests.engine.published import LLAMA_3, gpt2, llama, mistral, qwen2, randomised
from torch import Tensor
from transformers import PreTrainedModel

from adaptlab.engine.models.attachments import NOTHING_ATTACHED
from adaptlab.engine.models.huggingface import load_folder
from adaptlab.engine.models.library_comparison import check_against_library
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.errors import BadModelFolder
from adaptlab.weights.huggingface import CONFIG
from adaptlab.weights.model_folder import check_folder

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.3],
    "long_factor": [1.0, 4.0, 9.0],
    "factor": 4.0,
}
LINEAR = {"rope_type": "linear", "factor": 4.0}
WITHOUT_THETA = {name: value for name, value in LLAMA_3.items() if name != "rope_theta"}
NO_ORIGINAL = {k: v for k, v in WITHOUT_THETA.items() if not k.startswith("original")}

READINGS: dict[str, tuple[Callable[[], PreTrainedModel], dict[str, object]]] = {
    "theta-beside-parameters": (
        llama, {"rope_parameters": {"rope_type": "default"}, "rope_theta": 77.0},
    ),
    "theta-beside-empty-parameters": (llama, {"rope_parameters": {}, "rope_theta": 77.0}),
    "scaling-beside-parameters": (
        qwen2, {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
                "rope_scaling": LINEAR, "rope_theta": 60.0},
    ),
    "scaling-beside-empty-parameters": (
        mistral, {"rope_parameters": {}, "rope_scaling": LINEAR, "rope_theta": 60.0},
    ),
    "empty-scaling": (
        llama, {"rope_parameters": {"rope_theta": 50.0}, "rope_scaling": {}},
    ),
    "type-and-rope-type": (
        llama, {"rope_parameters": None, "rope_scaling": LINEAR | {"type": "default"}},
    ),
    "original-context-left-out": (llama, {"rope_parameters": NO_ORIGINAL}),
    "original-context-outside": (
        llama, {"rope_parameters": LLAMA_3, "original_max_position_embeddings": 16},
    ),
    "part-of-the-head-is-turned": (
        llama, {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
    ),
    "yarn-llama": (llama, {"rope_parameters": YARN}),
    "yarn-mistral": (mistral, {"rope_parameters": None, "rope_scaling": YARN}),
    "yarn-qwen2": (qwen2, {"rope_parameters": YARN | {"rope_theta": 1e6}}),
    "longrope-long": (
        llama, {"rope_parameters": LONGROPE, "original_max_position_embeddings": 12},
    ),
    "longrope-short": (
        qwen2, {"rope_parameters": LONGROPE, "original_max_position_embeddings": 32},
    ),
    "dynamic": (llama, {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}),
    "other-activation": (llama, {"hidden_act": "gelu"}),
    "gpt2-other-activation": (gpt2, {"activation_function": "relu"}),
    "gpt2-inverse-layer": (gpt2, {"scale_attn_by_inverse_layer_idx": True}),
    "gpt2-unscaled": (gpt2, {"scale_attn_weights": False}),
    "gpt2-heads-by-another-name": (gpt2, {"n_head": 3, "num_attention_heads": 2}),
    "qwen3-default-head": (
        lambda: _of_library("Qwen3ForCausalLM", "Qwen3Config", head_dim=128), {"head_dim": None},
    ),
    "gemma3-default-head": (
        lambda: _of_library("Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=256),
        {"head_dim": None},
    ),
    "smollm3-default-keys": (
        lambda: _of_library("SmolLM3ForCausalLM", "SmolLM3Config", num_key_value_heads=4),
        {"num_key_value_heads": None},
    ),
}  # fmt: skip
"""Members of configurations that `transformers` completes or chooses among."""


def _of_library(name: str, config: str, **changes: Any) -> PreTrainedModel:
    from tests.engine.library_models import architecture

    return architecture(name, config, **changes)()


def reconfigured(folder: Path, changes: dict[str, object]) -> None:
    """Change members of a configuration; None takes one away."""
    config = {**json.loads((folder / CONFIG).read_text()), **changes}
    kept = {name: value for name, value in config.items() if value is not None}
    (folder / CONFIG).write_text(json.dumps(kept))


def both_logits(folder: Path) -> tuple[Tensor, Tensor]:
    """Return our logits [T, V] and those of the library's model."""
    ours = load_folder(folder)
    tokens = torch.arange(17).unsqueeze(0) % ours.family.shape().vocabulary
    forward = ENGINE_FAMILIES.get(ours.family.name)
    weights = {name: tensor.unsqueeze(0) for name, tensor in ours.tensors.items()}
    (name,) = json.loads((folder / CONFIG).read_text())["architectures"]
    with torch.no_grad():
        mine = forward(ours.family, weights, tokens.unsqueeze(0), NOTHING_ATTACHED, slice(None))
        theirs = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32)
        return mine[0, 0], theirs(tokens).logits[0]


@pytest.mark.parametrize("case", READINGS)
def test_a_configuration_is_read_as_the_library_reads_it(case: str, tmp_path: Path) -> None:
    make, changes = READINGS[case]
    randomised(make, double=False).save_pretrained(tmp_path)
    reconfigured(tmp_path, changes)
    mine, theirs = both_logits(tmp_path)
    assert (mine - theirs).abs().max() < 1e-4
    check_against_library(check_folder(tmp_path))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rotary_base": 5000.0}, "rope_parameters is "),
        ({"norm_epsilon": 1e-3}, "rms_norm_eps is 0.001 here and 1e-06 there"),
        ({"tied_head": True}, "tie_word_embeddings is True here and False there"),
        ({"key_value_heads": 4}, "num_key_value_heads is 4 here and 2 there"),
        ({"layers": 1}, "num_hidden_layers is 1 here and 2 there"),
    ],
)
def test_another_reading_is_refused_with_its_member(
    changes: dict[str, object], told: str, tmp_path: Path
) -> None:
    randomised(llama, double=False).save_pretrained(tmp_path)
    checked = check_folder(tmp_path)
    other = replace(checked, family=checked.family.model_copy(update=changes))
    with pytest.raises(BadModelFolder, match=told):
        check_against_library(other)


def test_other_logits_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    randomised(llama, double=False).save_pretrained(tmp_path)
    forward = ENGINE_FAMILIES.get("llama")
    monkeypatch.setattr(
        "adaptlab.engine.models.library_comparison.ENGINE_FAMILIES.get",
        lambda _: lambda *args: forward(*args) * 1.01,
    )
    with pytest.raises(BadModelFolder, match=r"logits of adaptlab differ .* by up to"):
        check_against_library(check_folder(tmp_path))


@pytest.mark.parametrize(
    "member", [{"hidden_act": "nonsense"}, {"rope_parameters": YARN | {"factor": "4"}}]
)
def test_what_the_library_refuses_is_refused_in_words(
    member: dict[str, object], tmp_path: Path
) -> None:
    randomised(OF_LIBRARY["qwen3"], double=False).save_pretrained(tmp_path)
    reconfigured(tmp_path, member)
    with pytest.raises(BadModelFolder, match=r"transformers \S+ builds no Qwen3ForCausalLM from"):
        both_logits(tmp_path)
