"""Declarations of families: dimensions, counts and faults.

Counts are from algebra. Faults have the nearest remedy.
"""

import pytest

from adaptlab.errors import InvalidSpec
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec


def pretraining(**family: object) -> PretrainSpec:
    return PretrainSpec.model_validate(
        {"name": "tiny", "family": family, "task": {"name": "sort_ascending", "length": 4}}
    )


def blocks(shape: ModelShape) -> int:
    return sum(t.size for name, t in shape.tensors.items() if name.startswith("blocks.0."))


def test_gpt2_small_has_its_published_size():
    shape = GPT2(layers=12, heads=12, width=768, vocabulary=50257, context=1024, hidden=3072)
    assert shape.shape().parameters == 124_439_808  # as its publication's repository counts


def test_smollm_has_its_published_size():
    shape = Llama(
        layers=30, heads=9, key_value_heads=3, width=576, head_size=64, hidden=1536,
        vocabulary=49152, context=2048, tied_head=True,
    ).shape()  # fmt: skip
    assert shape.parameters == 134_515_008  # SmolLM-135M
    assert shape.key_value_width == 192


def test_qwen2_has_its_published_size():
    shape = Llama(
        layers=24, heads=14, key_value_heads=2, width=896, head_size=64, hidden=4864,
        vocabulary=151936, context=32768, tied_head=True, attention_biases="qkv",
    ).shape()  # fmt: skip
    assert shape.parameters == 494_032_768  # Qwen2-0.5B


def test_a_block_of_llama_counts_as_its_formula():
    shape = Llama(layers=1, heads=6, key_value_heads=2, width=10, head_size=4).resolved(7, 5)
    d, queries, keys, hidden = 10, 24, 8, 32  # 8/3 of 10, up to the next multiple of 8
    assert blocks(shape.shape()) == 2 * d * queries + 2 * d * keys + 3 * d * hidden + 2 * d
    assert shape.shape().tied == {}


def test_a_tied_head_is_counted_once_and_is_a_site_all_the_same():
    tied = GPT2(width=12).resolved(7, 5).shape()
    untied = GPT2(width=12, tied_head=False).resolved(7, 5).shape()
    assert untied.parameters - tied.parameters == 7 * 12
    assert tied.sites.keys() == untied.sites.keys()


@pytest.mark.parametrize(
    ("family", "pointer", "nearest"),
    [
        ({"name": "gpt2", "heads": 5, "width": 12}, "/family/heads", (4, 6)),
        ({"name": "llama", "heads": 5, "width": 12}, "/family/heads", (4, 6)),
        ({"name": "llama", "heads": 4, "key_value_heads": 3}, "/family/key_value_heads", (2, 4)),
        ({"name": "llama", "heads": 4, "width": 12}, "/family/head_size", (2, 4)),
    ],
)
def test_heads_that_do_not_fit_are_refused(
    family: dict[str, object], pointer: str, nearest: tuple[int, ...]
):
    with pytest.raises(InvalidSpec) as refused:
        resolve(pretraining(**family), None)
    problem = refused.value.problems[0]
    assert (problem.pointer, problem.nearest) == (pointer, nearest)


def test_an_unknown_rotary_scaling_is_refused_with_those_there_are():
    with pytest.raises(InvalidSpec) as refused:
        resolve(pretraining(name="llama", rotary_scaling={"kind": "yarn", "factor": 2.0}), None)
    assert refused.value.problems[0].pointer.startswith("/family/rotary_scaling")
    assert "llama3" in str(refused.value)


def test_a_resolved_family_has_no_auto_left():
    resolved = resolve(pretraining(name="llama", heads=2, key_value_heads=1, width=12), None)
    assert "auto" not in as_json(resolved.family).values()
