"""Folders for PEFT: what they say of modules, and what has no such form."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save
from tests.adapters import drawn
from tests.folders import a_bert_folder

from adaptlab.errors import BadCheckpoint, NoPeftForm
from adaptlab.exchange.peft_folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS, peft_folder
from adaptlab.exchange.plugins import PEFT_FORMS
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.plugins.method import METHODS, Method
from adaptlab.weights.model_folder import check_folder

LLAMA = Llama(layers=2, width=8, heads=4, key_value_heads=2, vocabulary=11, context=9)


def exported(method: Method, family: GPT2 | Llama = LLAMA) -> dict[str, bytes]:
    family = family.resolved(11, 9)
    tensors = drawn(method.tensors(family.shape()), 3)
    return peft_folder(family, method, save(tensors), lambda name: pytest.fail(name), "models/it")


def test_a_model_that_fills_masks_in_has_no_form(tmp_path: Path) -> None:
    family = check_folder(a_bert_folder(tmp_path / "bert")).family
    with pytest.raises(NoPeftForm, match="models that fill masks in"):
        peft_folder(family, Lora(rank=1), b"", lambda name: pytest.fail(name))


@pytest.mark.parametrize(
    ("sites", "modules"),
    [
        (("q", "v"), ["q_proj", "v_proj"]),
        (("blocks.1.attn.q",), ["1.self_attn.q_proj"]),
        (("o", "blocks.0.mlp.up"), ["0.mlp.up_proj", "o_proj"]),
        (("unembed",), ["lm_head"]),
    ],
)
def test_the_shortest_names_that_match_no_other_module(
    sites: tuple[str, ...], modules: list[str]
) -> None:
    config = json.loads(exported(Lora(rank=1, sites=sites))[ADAPTER_CONFIG])
    assert config["target_modules"] == modules
    assert config["base_model_name_or_path"] == "models/it"


def test_updates_of_different_ranks_in_fused_modules() -> None:
    method = Lora(rank=2, alpha=3, sites=("q", "blocks.0.attn.v"), scaling="rank_stabilised")
    files = exported(method, GPT2(layers=3, width=8, heads=2))
    config = json.loads(files[ADAPTER_CONFIG])
    assert (config["r"], config["lora_alpha"]) == (2, 3)
    assert config["rank_pattern"] == {"0.attn.c_attn": 4}
    assert config["alpha_pattern"] == {"0.attn.c_attn": pytest.approx(3 * 2**0.5)}
    b = load(files[ADAPTER_WEIGHTS])["base_model.model.transformer.h.0.attn.c_attn.lora_B.weight"]
    assert b[:8, :2].all()
    assert b[16:, 2:].all()
    assert np.count_nonzero(b) == 2 * 8 * 2


def test_every_file_is_the_same_again() -> None:
    assert exported(Lora(rank=2)) == exported(Lora(rank=2))


@pytest.mark.parametrize("name", sorted({*METHODS.names()} - {*PEFT_FORMS.names()}))
def test_every_method_without_a_form_names_one_with(name: str) -> None:
    method = METHODS.get(name)
    nearest = method.nearest_in_peft.partition(" ")[0]
    assert nearest in PEFT_FORMS.names()


def test_a_prefix_at_the_input_has_no_form() -> None:
    with pytest.raises(NoPeftForm, match="The nearest method is prefix_tuning with `side: key_v"):
        exported(PrefixTuning(length=2))


def test_a_checkpoint_of_another_rank_is_refused() -> None:
    family = LLAMA.resolved(11, 9)
    tensors = drawn(Lora(rank=2).tensors(family.shape()), 3)
    with pytest.raises(BadCheckpoint, match=r"another shape: blocks\.0\.attn\.q\.a, blocks"):
        peft_folder(family, Lora(rank=1), save(tensors), lambda name: pytest.fail(name))
