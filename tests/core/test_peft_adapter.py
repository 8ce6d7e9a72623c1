"""Adapters from PEFT's folders: conversions and refusals.

Tests cover what adapters become, and what is refused by name.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tests.folders import a_bert_folder, a_model_folder
from tests.peft_folders import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    KEY,
    LORA,
    Arrays,
    a_peft_folder,
    lora_tensors,
)

from adaptlab.errors import BadAdapter, NoPeftForm
from adaptlab.exchange import adapter_folder
from adaptlab.exchange.adapter_folder import read_adapter, read_placed
from adaptlab.exchange.peft_adapter import imported_adapter
from adaptlab.exchange.peft_methods import lora_from_peft
from adaptlab.exchange.plugins import AttachedAdapter
from adaptlab.exchange.site_patterns import site_patterns
from adaptlab.families.gpt2 import GPT2
from adaptlab.methods.ia3 import IA3
from adaptlab.methods.layernorm_tuning import LayerNormTuning
from adaptlab.methods.lora import Lora, SitesOverride
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.plugins.family import Family
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder

MINIGPT2 = GPT2(layers=2, width=8, heads=2).resolved(11, 9)
C_ATTN = "base_model.model.transformer.h.{}.attn.c_attn.{}.weight"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return check_folder(a_model_folder(tmp_path_factory.mktemp("base") / "llama")).family


def imported(family: Family, folder: Path) -> AttachedAdapter:
    return imported_adapter(family, read_adapter(folder), lambda name: pytest.fail(name))


def test_lora_as_peft_writes_it(llama: Family, tmp_path: Path) -> None:
    adapter = imported(llama, a_peft_folder(tmp_path / "lora"))
    assert adapter.method == Lora(rank=2, alpha=4, sites=("q", "v"))
    name = KEY.format(layer=1, module="v_proj", kind="lora_B")
    assert np.array_equal(adapter.tensors["blocks.1.attn.v.b"], lora_tensors()[name])


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats_are_converted(llama: Family, tmp_path: Path, dtype: Any) -> None:
    tensors = {name: tensor.astype(dtype) for name, tensor in lora_tensors().items()}
    adapter = imported(llama, a_peft_folder(tmp_path / "lora", LORA, tensors))
    assert {tensor.dtype for tensor in adapter.tensors.values()} == {np.dtype(np.float32)}
    stored = tensors[KEY.format(layer=0, module="q_proj", kind="lora_A")]
    assert np.array_equal(adapter.tensors["blocks.0.attn.q.a"], stored.astype(np.float32))


def test_a_general_update_of_a_fused_module_has_all_of_a_at_every_site(tmp_path: Path) -> None:
    draw = np.random.default_rng(3).normal
    shapes = {"lora_A": (2, 8), "lora_B": (24, 2)}
    tensors = {
        C_ATTN.format(layer, kind): draw(size=shape).astype(np.float32)
        for layer in range(2)
        for kind, shape in shapes.items()
    }
    config = {**LORA, "target_modules": ["c_attn"], "fan_in_fan_out": True}
    adapter = imported(MINIGPT2, a_peft_folder(tmp_path / "lora", config, tensors))
    assert adapter.method == Lora(rank=2, alpha=4, sites=("q", "k", "v"))
    for site in "qkv":
        a = adapter.tensors[f"blocks.1.attn.{site}.a"]
        assert np.array_equal(a, tensors[C_ATTN.format(1, "lora_A")])
    b = tensors[C_ATTN.format(1, "lora_B")]
    assert np.array_equal(adapter.tensors["blocks.1.attn.k.b"], b[8:16])


def test_a_magnitude_of_an_unchanged_site_is_kept_if_it_was_learned(tmp_path: Path) -> None:
    """DoRA rescales rows of W also where B is zero."""
    norms: NDArray[Any] = np.arange(1, 25, dtype=np.float32)
    b = np.zeros((24, 2), np.float32)
    b[:8] = 1
    tensors = {
        C_ATTN.format(0, "lora_A"): np.ones((2, 8), np.float32),
        C_ATTN.format(0, "lora_B"): b,
    }
    tensors["base_model.model.transformer.h.0.attn.c_attn.lora_magnitude_vector"] = norms
    config = {**LORA, "target_modules": ["c_attn"], "use_dora": True}
    folder = a_peft_folder(tmp_path / "dora", config, tensors)
    rows = {f"blocks.0.attn.{site}.weight": np.eye(8, dtype=np.float32) for site in "qkv"}
    rows["blocks.0.attn.k.weight"] *= norms[8:16, None]
    adapter = imported_adapter(MINIGPT2, read_adapter(folder), rows.__getitem__)
    assert {name.split(".")[3] for name in adapter.tensors} == {"q", "v"}
    assert np.array_equal(adapter.tensors["blocks.0.attn.v.magnitude"], norms[16:])


def test_ranks_and_alphas_by_module(llama: Family, tmp_path: Path) -> None:
    first = {"q_proj_lora_A": np.ones((4, 8), np.float32), "q_proj_lora_B": np.ones((8, 4))}
    config = {**LORA, "rank_pattern": {"0.self_attn.q_proj": 4}, "alpha_pattern": {"q_proj": 8}}
    adapter = imported(llama, a_peft_folder(tmp_path / "ranks", config, lora_tensors(**first)))
    of_first = SitesOverride(sites=("blocks.0.attn.q",), rank=4, alpha=8)
    of_second = SitesOverride(sites=("blocks.1.attn.q",), alpha=8)
    assert adapter.method == Lora(
        rank=2, alpha=4, sites=("q", "v"), overrides=(of_first, of_second)
    )
    assert adapter.tensors["blocks.0.attn.q.a"].shape == (4, 8)
    adapter = imported(llama, a_peft_folder(tmp_path / "scales", {**config, "rank_pattern": {}}))
    of_values = SitesOverride(sites=("v",), alpha=4)
    assert adapter.method == Lora(rank=2, alpha=8, sites=("q", "v"), overrides=(of_values,))
    config = {**config, "rank_pattern": {}, "alpha_pattern": {"q_proj": 8, "v_proj": 8}}
    adapter = imported(llama, a_peft_folder(tmp_path / "same", config))
    assert adapter.method == Lora(rank=2, alpha=8, sites=("q", "v"))


def test_norms_that_peft_has_not_copied_are_those_of_the_base(
    llama: Family, tmp_path: Path
) -> None:
    key = "base_model.model.model.norm.ln_tuning_layers.weight"
    tensors: Arrays = {key: np.full(8, 2, np.float32)}
    config = {"peft_type": "LN_TUNING", "target_modules": ["norm"]}
    folder = a_peft_folder(tmp_path / "norms", config, tensors)
    own = np.full(8, 3, np.float32)
    adapter = imported_adapter(llama, read_adapter(folder), lambda _: own)
    assert adapter.method == LayerNormTuning()
    numbers = {name: tensor[0] for name, tensor in adapter.tensors.items()}
    assert len(numbers) == 5
    assert [name for name, number in numbers.items() if number == 2] == ["final_norm.weight"]


def test_more_sizes_than_overrides(
    llama: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_peft_folder(tmp_path / "lora", {**LORA, "alpha_pattern": {"q_proj": 8}})
    monkeypatch.setattr(lora_from_peft, "MOST_OVERRIDES", 0)
    with pytest.raises(BadAdapter, match="have 2 pairs of a rank and an alpha"):
        imported(llama, folder)


def test_sites_that_need_too_many_patterns(
    llama: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_peft_folder(tmp_path / "lora")
    monkeypatch.setattr(lora_from_peft, "MOST_PATTERNS", 2)
    imported(llama, folder)
    monkeypatch.setattr(lora_from_peft, "MOST_PATTERNS", 1)
    with pytest.raises(BadAdapter, match="need more than 1 patterns of sites"):
        imported(llama, folder)


def test_ia3_with_fewer_modules_has_ones_elsewhere(llama: Family, tmp_path: Path) -> None:
    name = "base_model.model.model.layers.{}.self_attn.v_proj.ia3_l"
    tensors: Arrays = {name.format(n): np.full((4, 1), 2 + n, np.float32) for n in range(2)}
    config = {"peft_type": "IA3", "target_modules": ["v_proj"], "feedforward_modules": []}
    adapter = imported(llama, a_peft_folder(tmp_path / "ia3", config, tensors))
    assert adapter.method == IA3()
    assert (adapter.tensors["blocks.1.attn.v.scale"] == 3).all()
    assert (adapter.tensors["blocks.1.mlp.down.scale"] == 1).all()


PREFIX = {
    "peft_type": "PREFIX_TUNING",
    "task_type": "CAUSAL_LM",
    "num_virtual_tokens": 3,
    "num_attention_heads": 1,
    "num_layers": 2,
    "token_dim": 4,
    "prefix_projection": True,
}
"""Of the Llama, whose keys have one head of four features; PEFT has computed the projection."""


def test_a_prefix_has_keys_before_values(llama: Family, tmp_path: Path) -> None:
    rows = np.arange(48, dtype=np.float32).reshape(3, 16)
    folder = a_peft_folder(tmp_path / "prefix", PREFIX, {"prompt_embeddings": rows})
    adapter = imported(llama, folder)
    assert adapter.method == PrefixTuning(length=3, side="key_value")
    (*_, last) = adapter.tensors.items()
    assert last[0].startswith("blocks.1")
    assert last[0].endswith("values")
    assert np.array_equal(last[1], rows[:, 12:])


Q = np.ones((8, 2), np.float32)
REFUSED: dict[str, tuple[Mapping[str, object], Arrays | None, str]] = {
    "biases": ({"bias": "all"}, None, 'bias must be .none., not "all". Train the adapter without'),
    "pissa": ({"init_lora_weights": "pissa"}, None, "path_initial_model_for_weight_conversion"),
    "layers": ({"layers_to_transform": [1]}, None, "which layers_to_transform of adapter_config"),
    "unknown": ({"use_wonder": True}, None, "sets 'use_wonder' to true, for which adaptlab has no"),
    "heads": ({"modules_to_save": ["lm_head"]}, None, "modules_to_save, which are trained copies"),
    "classes": ({"task_type": "SEQ_CLS"}, None, "that predict the next token"),
    "other type": ({"peft_type": "LOKR"}, None, 'peft_type "LOKR". Adapters of these types'),
    "no type": ({"peft_type": [1]}, None, "peft_type a list"),
    "alpha": ({"lora_alpha": 0}, None, "alpha 0 for model.layers.0.*must be above 0"),
    "large alpha": ({"lora_alpha": 1e300}, None, r"at most 10000\. Scale B instead"),
    "huge alpha": ({"lora_alpha": 10**400}, None, "cannot be imported: lora_alpha must be a"),
    "infinite alpha": ({"lora_alpha": float("inf")}, None, "lora_alpha must be a finite number"),
    "huge rank": ({"r": 10**30}, None, "has the rank 1000.*, and adapter_model.safetensors has 2"),
    "negative": ({"r": -1}, None, "r must be greater than 0"),
    "regular expression": ({"rank_pattern": {"(a+)+$": 3}}, None, "without symbols of regular"),
    "untargeted": ({"target_modules": ["q_proj"]}, None, "v_proj, which target_modules of"),
    "another width": (
        {},
        lora_tensors(q_proj_lora_A=np.ones((2, 9), np.float32)),
        "has 2 × 9 numbers, and this base model needs any × 8. Use the base model that",
    ),
    "lacking": ({}, lora_tensors(q_proj_lora_B=None), "lacks base_model.*lora_B.weight. Save"),
    "another model": (
        {"target_modules": ["c_attn"]},
        {C_ATTN.format(0, "lora_A"): Q.T},
        "adapts transformer.h.0.attn.c_attn, which is no linear module of this base model",
    ),
    "norms": (
        {"peft_type": "LN_TUNING", "r": None, "lora_alpha": None, "lora_dropout": None,
         "megatron_core": None, "bias": None, "init_lora_weights": None,
         "target_modules": ["q_proj"]},
        {"base_model.model.model.layers.0.self_attn.q_proj.ln_tuning_layers.weight": Q},
        "which is not that of a norm of this base model. Use the base model",
    ),
    "embedding": ({}, {"base_model.model.lora_embedding_A": Q}, "for which adaptlab has no form"),
    "nothing": ({}, {}, "has no tensors"),
    "not a number": ({}, lora_tensors(q_proj_lora_B=Q * np.nan), "not finite in float32"),
    "too large": ({}, lora_tensors(q_proj_lora_B=Q.astype(float) * 1e300), "not finite in float32"),
    "whole numbers": ({}, lora_tensors(q_proj_lora_B=Q.astype(np.int8)), "is stored as I8"),
    "ia3 of queries": (
        {"peft_type": "IA3", "r": None, "lora_alpha": None, "lora_dropout": None,
         "megatron_core": None, "bias": None, "init_lora_weights": None},
        {"base_model.model.model.layers.0.self_attn.q_proj.ia3_l": np.ones((8, 1)) * 2},
        "scales model.layers.0.self_attn.q_proj. IA3 of adaptlab scales",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_is_refused_by_name(name: str, llama: Family, tmp_path: Path) -> None:
    changes, tensors, message = REFUSED[name]
    folder = a_peft_folder(tmp_path / "adapter", {**LORA, **changes}, tensors)
    with pytest.raises(BadAdapter, match=message) as refusal:
        imported(llama, folder)
    assert any(name in str(refusal.value) for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS))
    assert "/tmp" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "shape", "message"),
    [
        ({}, (3, 15), "prompt_embeddings has 3 × 15 numbers, and this base model needs any × 16"),
        ({}, (2, 16), "num_virtual_tokens 3, and prompt_embeddings .* has 2 rows"),
        ({"num_attention_heads": 2}, (3, 16), "num_attention_heads 2, and keys of this base"),
        ({"num_transformer_submodules": 2}, (3, 16), "num_transformer_submodules must be 1"),
        ({"task_type": None}, (3, 16), "task_type must be 'CAUSAL_LM'"),
        ({"num_virtual_tokens": 0}, (0, 16), "has 0 learned positions"),
        ({"num_attention_heads": {}}, (3, 16), "must be a whole number, not a mapping"),
        ({"num_transformer_submodules": 3}, (3, 16), "submodules must be 1, not 3"),
        ({"num_virtual_tokens": 4097}, (4097, 16), r"has 4,097 learned positions.* 1 to 4,096\."),
        ({"modules_to_save": ["lm_head"]}, (3, 16), "modules_to_save, which are trained copies"),
    ],
)
def test_prefixes_that_do_not_fit(
    changes: Mapping[str, object],
    shape: tuple[int, ...],
    message: str,
    llama: Family,
    tmp_path: Path,
) -> None:
    tensors: Arrays = {"prompt_embeddings": np.ones(shape, np.float32)}
    folder = a_peft_folder(tmp_path / "prefix", {**PREFIX, **changes}, tensors)
    with pytest.raises(BadAdapter, match=message):
        imported(llama, folder)


def test_a_prefix_that_moves_positions_is_refused(tmp_path: Path) -> None:
    tensors: Arrays = {"prompt_embeddings": np.ones((3, 32), np.float32)}
    config = {**PREFIX, "num_attention_heads": 2, "token_dim": 8}
    folder = a_peft_folder(tmp_path / "prefix", config, tensors)
    table = np.ones((9, 8), np.float32)
    with pytest.raises(BadAdapter, match=r"content other position vectors of transformer\.wpe"):
        imported_adapter(MINIGPT2, read_adapter(folder), lambda _: table)


def test_a_model_that_fills_masks_in_has_no_adapters(tmp_path: Path) -> None:
    family = check_folder(a_bert_folder(tmp_path / "bert")).family
    with pytest.raises(NoPeftForm, match="models that fill masks in"):
        imported(family, a_peft_folder(tmp_path / "lora"))


def _pickled(folder: Path) -> None:
    (folder / ADAPTER_WEIGHTS).rename(folder / "adapter_model.bin")


def _cut(folder: Path) -> None:
    os.truncate(folder / ADAPTER_WEIGHTS, 900)


def _nested(folder: Path) -> None:
    (folder / ADAPTER_CONFIG).write_text("[" * 100_000)


def _pipe(folder: Path) -> None:
    (folder / ADAPTER_WEIGHTS).unlink()
    os.mkfifo(folder / ADAPTER_WEIGHTS)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda f: [file.unlink() for file in f.iterdir()], f"has no {ADAPTER_CONFIG}"),
    "pickle": (_pickled, "adapter_model.bin is not read.*safe_serialization=True"),
    "list": (lambda f: (f / ADAPTER_CONFIG).write_text("[]"), "is not a JSON object"),
    "nested": (_nested, "is not JSON"),
    "cut": (_cut, "not a whole safetensors file"),
    "pipe": (_pipe, "not a regular file"),
    "folder": (lambda f: (f / ADAPTER_WEIGHTS).unlink() or (f / ADAPTER_WEIGHTS).mkdir(), "cannot"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders(name: str, tmp_path: Path) -> None:
    folder = a_peft_folder(tmp_path / "adapter")
    spoil, message = BROKEN[name]
    spoil(folder)
    with pytest.raises(BadAdapter, match=message) as refusal:
        read_adapter(folder)
    assert "/tmp" not in str(refusal.value)


def test_a_file_above_the_limit_is_not_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_peft_folder(tmp_path / "adapter")
    scalars = sum(tensor.size for tensor in lora_tensors().values())
    monkeypatch.setattr(adapter_folder, "LARGEST_ADAPTER", 4 * scalars)
    read_adapter(folder)
    monkeypatch.setattr(adapter_folder, "LARGEST_ADAPTER", 4 * scalars - 1)
    with pytest.raises(BadAdapter, match="which is the limit for an adapter"):
        read_adapter(folder)


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    outside = a_peft_folder(tmp_path / "outside")
    folder = a_peft_folder(tmp_path / "root" / "lora")
    (folder / ADAPTER_WEIGHTS).unlink()
    (folder / ADAPTER_WEIGHTS).symlink_to(outside / ADAPTER_WEIGHTS)
    with pytest.raises(BadAdapter, match="it is outside its model root"):
        read_adapter(folder, tmp_path / "root")


def test_every_byte_counts_for_the_fingerprint(tmp_path: Path) -> None:
    folder = a_peft_folder(tmp_path / "lora")
    placed = PlacedFolder(path=folder, name="models/lora", files=read_adapter(folder).files)
    read_placed(placed)
    tensors = lora_tensors()
    tensors[KEY.format(layer=0, module="q_proj", kind="lora_A")][0, 0] += 1
    save_file(tensors, folder / ADAPTER_WEIGHTS)
    with pytest.raises(BadAdapter, match=f"models/lora is not as it was .*: {ADAPTER_WEIGHTS}"):
        read_placed(placed)
    (folder / ADAPTER_CONFIG).write_text(json.dumps({**LORA, "lora_alpha": 5}))
    with pytest.raises(BadAdapter, match=rf"{ADAPTER_CONFIG} \(.*, {ADAPTER_WEIGHTS} \("):
        read_placed(placed)


@pytest.mark.parametrize(
    "sites", [("q", "v"), ("attn",), ("blocks.0",), ("down", "blocks.1.attn.q"), ("unembed",)]
)
def test_the_patterns_of_a_set_of_sites(sites: tuple[str, ...], llama: Family) -> None:
    shape = llama.shape()
    chosen = {site.name for pattern in sites for site in shape.matching_sites(pattern)}
    assert sorted(site_patterns(shape, chosen)) == sorted(sites)
