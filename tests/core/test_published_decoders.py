"""Decoders that the library computes: sites, and refused folders.

Sites are from names and shapes.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.folders import WEIGHTS, a_qwen3_folder, with_weights

from adaptlab.errors import BadModelFolder
from adaptlab.families.transformers import Transformers
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.registry import as_json, by_name
from adaptlab.weights.model_folder import CheckedFolder, check_folder

LAYER = "model.layers.1"
NESTED: list[object] = json.loads("[" * 900 + "]" * 900)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_qwen3_folder(tmp_path / "qwen3")


def zeros(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.zeros(shape, np.float32)


def of_each_layer(name: str, *shape: int) -> dict[str, object]:
    return {f"model.layers.{layer}.self_attn.{name}": zeros(*shape) for layer in range(2)}


def fused(folder: Path) -> CheckedFolder:
    """Return the folder as a Phi-3.

    Its queries, keys and values are one matrix.
    """
    tensors = load_file(folder / WEIGHTS)
    for layer in range(2):
        attention, mlp = f"model.layers.{layer}.self_attn", f"model.layers.{layer}.mlp"
        parts = [tensors.pop(f"{attention}.{part}_proj.weight") for part in "qkv"]
        tensors[f"{attention}.qkv_proj.weight"] = np.concatenate(parts)
        halves = [tensors.pop(f"{mlp}.{part}_proj.weight") for part in ("gate", "up")]
        tensors[f"{mlp}.gate_up_proj.weight"] = np.concatenate(halves)
        for part in "qk":
            del tensors[f"{attention}.{part}_norm.weight"]
    save_file(tensors, folder / WEIGHTS)
    reconfigured(folder, architectures=["Phi3ForCausalLM"])
    return check_folder(folder)


def reconfigured(folder: Path, **members: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def test_sites_and_sizes_follow_from_headers(folder: Path) -> None:
    shape = check_folder(folder).family.shape()
    assert [site.name for site in shape.linear_sites if site.layer == 1] == [
        f"blocks.1.{part}"
        for part in ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.up", "mlp.gate", "mlp.down")
    ]
    sizes = {site.name: (site.inputs, site.outputs) for site in shape.linear_sites}
    assert sizes["blocks.0.attn.k"] == (8, 4)
    assert sizes["unembed"] == (8, 12)
    stored = load_file(folder / WEIGHTS)
    assert shape.parameters == sum(tensor.size for tensor in stored.values())


def test_a_fused_matrix_has_a_site_for_each_part(folder: Path) -> None:
    alone = check_folder(folder).family.shape()
    checked = fused(folder)
    together = checked.family.shape()
    assert together.linear_sites == alone.linear_sites
    stored, place = checked.sources["blocks.1.attn.v.weight"]
    assert (stored.name, place.start, place.fused) == (f"{LAYER}.self_attn.qkv_proj.weight", 12, 16)


def of_experts(folder: Path, count: int) -> None:
    """Make the folder a Mixtral, whose MLPs are experts behind a router."""
    tensors = load_file(folder / WEIGHTS)
    for layer in range(2):
        block = f"model.layers.{layer}"
        matrices = [
            tensors.pop(f"{block}.mlp.{part}_proj.weight") for part in ("gate", "down", "up")
        ]
        for expert in range(count):
            name = f"{block}.block_sparse_moe.experts.{expert}"
            tensors |= {f"{name}.w{n}.weight": t.copy() for n, t in enumerate(matrices, 1)}
        tensors[f"{block}.block_sparse_moe.gate.weight"] = zeros(3, 8)
        for part in "qk":
            del tensors[f"{block}.self_attn.{part}_norm.weight"]
    save_file(tensors, folder / WEIGHTS)
    reconfigured(
        folder,
        architectures=["MixtralForCausalLM"],
        num_local_experts=3,
        num_experts_per_tok=2,
    )


def test_experts_are_tensors_and_not_sites(folder: Path) -> None:
    dense = check_folder(folder).family.shape()
    of_experts(folder, 3)
    checked = check_folder(folder)
    shape = checked.family.shape()
    of_attention = [site for site in dense.linear_sites if ".mlp." not in site.name]
    assert list(shape.linear_sites) == of_attention
    assert shape.parameters == sum(t.size for t in load_file(folder / WEIGHTS).values())
    stored, _ = checked.sources["blocks.1.mlp.experts.2.down.weight"]
    assert stored.name == "model.layers.1.block_sparse_moe.experts.2.w2.weight"
    mlp = sum(2 * s.inputs * s.outputs for s in dense.linear_sites if ".mlp." in s.name)
    routers = 2 * 2 * 3 * 8
    more = shape.forward_flops_per_token() - dense.forward_flops_per_token()
    assert more == mlp + routers, "a token reaches two experts"


def test_an_expert_that_is_missing_is_named(folder: Path) -> None:
    of_experts(folder, 2)
    with pytest.raises(BadModelFolder, match=r"has no blocks\.\*\.mlp\.experts\.2\.down\.weight"):
        check_folder(folder)


def test_a_family_is_read_as_it_was_written(folder: Path) -> None:
    family = check_folder(folder).family
    assert isinstance(family, Transformers)
    again = by_name(FAMILIES, json.loads(json.dumps(as_json(family))))
    assert again == family
    assert hash(again) == hash(family)


@pytest.mark.parametrize(
    ("tensors", "members", "text"),
    [
        ({f"{LAYER}.self_attn.q_proj.weight": None}, {}, "2 layers, and the files have .*q_proj"),
        ({f"{LAYER}.mlp.up_proj.weight": zeros(9, 8)}, {}, "whose layers differ"),
        ({"model.router.weight": zeros(2, 8)}, {}, "router.* a kind that adaptlab does not"),
        ({"lm_head.weight": None}, {}, "the model has no unembed.weight"),
        ({}, {"num_hidden_layers": 3}, "3 layers, and the files have"),
        ({}, {"num_attention_heads": 0}, "num_attention_heads"),
        ({}, {"max_position_embeddings": 10**18}, "max_position_embeddings"),
        ({}, {"x": NESTED}, r"config\.x\.list"),
        ({}, {"hidden_size": 16}, "weight has 12 × 8 numbers where config.json describes 12 × 16"),
        ({}, {"vocab_size": 99}, "12 × 8 numbers where config.json describes 99 × 8"),
        ({}, {"num_attention_heads": 4}, "o_proj.weight has 8 × 8 .* describes 8 × 16"),
        ({}, {"num_key_value_heads": 2}, "k_proj.weight has 4 × 8 .* describes 8 × 8"),
        ({}, {"head_dim": 10**9}, "k_proj.weight has 4 × 8 .* describes 1000000000 × 8"),
        (of_each_layer("q_proj.weight", 8), {}, "q_proj.weight has 8 numbers .* 8 × 8"),
        (of_each_layer("q_proj.bias", 8, 1), {}, "q_proj.bias has 8 × 1 numbers .* describes any"),
        ({}, {"auto_map": {"AutoModel": "modeling.Mine"}}, "auto_map"),
        (
            {},
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            r'quantization_config \("gptq", 4 bits\).*Folders of quantised models are not read',
        ),
        (
            {},
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
            r'\("bitsandbytes", 4 bits\)\. .* call dequantize\(\)',
        ),
        ({}, {"quantization_config": [1]}, r"\(of an unnamed kind\)"),
    ],
)
def test_a_folder_that_does_not_fit_its_configuration_is_refused_by_name(
    folder: Path, tensors: dict[str, object], members: dict[str, object], text: str
) -> None:
    with_weights(folder, **tensors)  # pyright: ignore[reportArgumentType]
    reconfigured(folder, **members)
    with pytest.raises(BadModelFolder, match=text):
        check_folder(folder)


def test_fused_outputs_that_do_not_add_up_are_refused(folder: Path) -> None:
    fused(folder)
    reconfigured(folder, num_key_value_heads=2)
    with pytest.raises(BadModelFolder, match=r"qkv_proj.weight has 16 outputs.* describes 24\."):
        check_folder(folder)
