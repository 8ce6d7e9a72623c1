"""Published families against `transformers`, on random models.

Logits and attention patterns are compared.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.published import (
    LLAMA_3,
    MODELS,
    llama,
    mistral,
    pair,
    qwen2,
    randomised,
    their_output,
)

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.huggingface import load_folder
from adaptlab.families.llama import Llama

TOLERANCE = {False: 1e-4, True: 1e-10}


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_logits_and_patterns_are_those_of_transformers(name: str, double: bool, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=double)
    recorder = LayerRecorder()
    logits = both.logits(recorder=recorder)
    expected = their_output(both.theirs, both.tokens(), double=double, output_attentions=True)
    assert logits.dtype == (torch.float64 if double else torch.float32)
    assert (logits - expected.logits).abs().max() < TOLERANCE[double]
    assert len(expected.attentions) == len(recorder.patterns) > 1
    for ours, theirs in zip(recorder.patterns, expected.attentions, strict=True):
        assert (ours[0] - theirs).abs().max() < TOLERANCE[double]


def test_parameters_are_counted_as_by_transformers(tmp_path: Path):
    for name in ("gpt2", "gpt2-untied", "llama-one-for-all-tied", "llama-biased", "qwen2"):
        both = pair(MODELS[name], tmp_path / name, double=False)
        assert both.ours.family.shape().parameters == both.theirs.num_parameters()


def test_all_three_kinds_of_frequency_of_llama_3_are_compared(tmp_path: Path):
    both = pair(MODELS["llama-3"], tmp_path, double=True)
    assert isinstance(both.ours.family, Llama)
    scaled = both.ours.family.rotary_frequencies()
    plain = both.ours.family.model_copy(update={"rotary_scaling": None}).rotary_frequencies()
    ratios = [after / before for after, before in zip(scaled, plain, strict=True)]
    assert ratios[0] == 1
    assert ratios[-1] == 1 / LLAMA_3["factor"]
    assert any(1 / LLAMA_3["factor"] < ratio < 1 for ratio in ratios)


def test_a_context_ends_where_a_sliding_window_would_begin_to_matter(tmp_path: Path):
    assert pair(mistral, tmp_path / "a", double=False).ours.family.shape().context == 64
    windowed = pair(lambda: mistral(sliding_window=11), tmp_path / "b", double=False)
    assert windowed.ours.family.shape().context == 11
    sliding = {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}
    qwen = pair(lambda: qwen2(**sliding), tmp_path / "c", double=False)
    assert qwen.ours.family.shape().context == 7
    unused = pair(lambda: qwen2(sliding_window=7), tmp_path / "d", double=False)
    assert unused.ours.family.shape().context == 64


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_are_read_exactly(dtype: torch.dtype, tmp_path: Path):
    model: Any = randomised(llama, double=False)
    model.to(dtype).save_pretrained(tmp_path)
    stored = model.state_dict()["model.layers.1.mlp.up_proj.weight"]
    assert stored.dtype == dtype
    assert torch.equal(load_folder(tmp_path).tensors["blocks.1.mlp.up.weight"], stored.float())
