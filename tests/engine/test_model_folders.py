"""Model folders that are whole, old, sharded, damaged or hostile."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.engine.published import LLAMA_3, gpt2, llama, qwen2, randomised
from torch import Tensor
from transformers import PreTrainedModel

from adaptlab.engine.models.huggingface import load_folder
from adaptlab.errors import BadModelFolder
from adaptlab.families.llama import Llama, Llama3Scaling
from adaptlab.weights.folder_files import PlainFolder
from adaptlab.weights.huggingface import CONFIG, INDEX, SINGLE, read_description

Tensors = dict[str, Tensor]
QUERY = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole Llama."""
    return saved(llama, tmp_path / "llama")


def saved(make: Callable[[], PreTrainedModel], folder: Path, **options: Any) -> Path:
    randomised(make, double=False).save_pretrained(folder, **options)
    return folder


def reconfigured(folder: Path, **changes: object) -> None:
    """Change members of the configuration; None takes one away."""
    config = {**json.loads((folder / CONFIG).read_text()), **changes}
    kept = {name: value for name, value in config.items() if value is not None}
    (folder / CONFIG).write_text(json.dumps(kept))


def rewritten(folder: Path, change: Callable[[Tensors], object]) -> None:
    """Change the stored tensors."""
    tensors = load_file(folder / SINGLE)
    change(tensors)
    save_file(tensors, folder / SINGLE)


def same(first: Path, second: Path) -> bool:
    one, other = load_folder(first), load_folder(second)
    assert one.family == other.family
    assert one.tensors.keys() == other.tensors.keys() == one.family.shape().tensors.keys()
    return all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)


def test_shards_are_one_model(folder: Path, tmp_path: Path):
    sharded = saved(llama, tmp_path / "sharded", max_shard_size="10KB")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    assert same(folder, sharded)


def test_a_gpt2_of_the_first_days_is_read(tmp_path: Path):
    new, old = saved(gpt2, tmp_path / "new"), saved(gpt2, tmp_path / "old")

    def age(tensors: Tensors) -> None:
        """Remove the prefix, and store masks and the tied head as well.

        Masks are stored as if they were weights, and the tied head is stored twice.
        """
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 19, 19).tril()
        tensors["h.1.attn.masked_bias"] = torch.tensor(-1e4)
        tensors["lm_head.weight"] = tensors["wte.weight"].clone()

    rewritten(old, age)
    assert same(new, old)


def test_a_configuration_from_before_transformers_5_is_read(folder: Path):
    new = read_description(PlainFolder(folder)).model({})
    reconfigured(folder, rope_parameters=None, rope_theta=10000.0)
    assert read_description(PlainFolder(folder)).model({}) == new
    scaling = {name: value for name, value in LLAMA_3.items() if name != "rope_theta"}
    scaling["type"] = scaling.pop("rope_type")
    reconfigured(folder, rope_theta=5000.0, rope_scaling=scaling)
    found = read_description(PlainFolder(folder)).model({})
    assert isinstance(found, Llama)
    assert found.rotary_base == 5000
    assert found.rotary_scaling == Llama3Scaling(
        factor=8, low_frequency_factor=1, high_frequency_factor=4, original_context=64
    )


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth", "model.pkl"])
def test_a_pickle_is_refused_by_name_and_never_opened(folder: Path, name: str):
    (folder / SINGLE).unlink()
    (folder / name).mkdir()  # opening it gives another error
    with pytest.raises(BadModelFolder, match=f"^{name} is not read.*{SINGLE}"):
        load_folder(folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"architectures": None}, r"names the architectures \[\]\. adaptlab supports one of"),
        ({"architectures": ["ResNetModel"]}, r"\['ResNetModel'\]\. .*'GPT2LMHeadModel'"),
        (
            {"auto_map": {"AutoModel": "modeling.Mine"}},
            "never runs such code.*remove auto_map",
        ),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"vocab_size": -1}, r"vocab_size must be greater than 0, not -1\."),
        ({"hidden_size": "24"}, 'hidden_size must be a whole number, not "24"'),
        (
            {"num_hidden_layers": 10**12},
            "layers must be .* equal to 256, not 1000000000000",
        ),
        ({"num_attention_heads": 0}, "num_attention_heads must be greater than 0"),
        ({"num_key_value_heads": 3}, "contradicts itself: .*3 heads of keys do not divide heads 4"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps must be a finite number"),
        ({"rope_parameters": {"rope_type": "spiral", "factor": 4.0}}, "'default', 'linear' or"),
        ({"rope_parameters": [4.0]}, "rope_parameters must be a mapping"),
        ({"rope_parameters": {"rope_type": "linear"}}, "factor"),
        (
            {"rope_parameters": LLAMA_3 | {"high_freq_factor": 1.0}},
            "high_frequency_factor must be above",
        ),
    ],
)
def test_what_the_engine_does_not_compute_is_refused_by_name(
    folder: Path, changes: dict[str, object], told: str
):
    reconfigured(folder, **changes)
    with pytest.raises(BadModelFolder, match=f"(?s)^{CONFIG} .*{told}"):
        load_folder(folder)


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 100_000, "\xff"])
def test_a_configuration_that_is_no_json_object_is_refused(folder: Path, content: str):
    (folder / CONFIG).write_bytes(content.encode("latin-1"))
    with pytest.raises(BadModelFolder, match=CONFIG):
        load_folder(folder)


def test_a_folder_without_configuration_or_weights_is_refused(folder: Path, tmp_path: Path):
    with pytest.raises(BadModelFolder, match=f"{CONFIG} cannot be read"):
        load_folder(tmp_path / "nowhere")
    (folder / SINGLE).unlink()
    with pytest.raises(BadModelFolder, match=rf"no safetensors file\. Add {SINGLE}"):
        load_folder(folder)


def _set(name: str, value: Tensor) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: value})


def _spoilt(tensors: Tensors) -> None:
    tensors[QUERY][3, 2] = torch.nan


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.pop(QUERY), r"lacks the tensors layers\.0\.self_attn\.q_proj\.weight"),
        (
            _set("model.layers.0.self_attn.q_proj.bias", torch.zeros(24)),
            r"additional tensors layers\.0.*q_proj",
        ),
        (
            _set("model.layers.2.mlp.up_proj.weight", torch.zeros(20, 24)),
            r"additional tensors layers\.2\.mlp",
        ),
        (_set("lm_head.bias", torch.zeros(41)), r"additional tensors lm_head\.bias"),
        (
            _set(QUERY, torch.zeros(24, 25)),
            rf"{QUERY} has the shape \(24, 25\) instead of \(24, 24\)",
        ),
        (_set(QUERY, torch.zeros(24)), rf"{QUERY} has the shape \(24,\) instead"),
        (_set(QUERY, torch.zeros(24, 24, dtype=torch.int8)), rf"{QUERY} is stored as I8"),
        (_set("norm.weight", torch.zeros(24)), "occurs twice in the folder"),
        (_spoilt, f"{QUERY} holds values that are not finite"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(
    folder: Path, change: Callable[[Tensors], object], told: str
):
    rewritten(folder, change)
    with pytest.raises(BadModelFolder, match=told):
        load_folder(folder)


def test_headers_are_checked_before_any_tensor_is_read(folder: Path):
    rewritten(folder, _spoilt)  # in layer 0, and in the last tensor of all a wrong shape
    rewritten(folder, _set("lm_head.weight", torch.zeros(40, 24)))
    with pytest.raises(BadModelFolder, match=r"lm_head\.weight has the shape \(40, 24\)"):
        load_folder(folder)


def test_a_value_too_large_for_the_dtype_is_refused(folder: Path):
    rewritten(folder, lambda t: t.update({QUERY: t[QUERY].double() * 1e300}))
    load_folder(folder, torch.float64)
    with pytest.raises(BadModelFolder, match=r"not finite in torch\.float32"):
        load_folder(folder, torch.float32)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused_by_name(folder: Path, kept: int):
    content = (folder / SINGLE).read_bytes()
    (folder / SINGLE).write_bytes(content[:kept])
    with pytest.raises(BadModelFolder, match=f"{SINGLE} is not a whole safetensors file"):
        load_folder(folder)


def test_a_head_that_contradicts_its_tying_is_refused(tmp_path: Path):
    folder = saved(lambda: qwen2(tie_word_embeddings=True), tmp_path)
    rewritten(folder, _set("lm_head.weight", torch.zeros(41, 24)))
    with pytest.raises(BadModelFolder, match="tie_word_embeddings"):
        load_folder(folder)
    reconfigured(folder, tie_word_embeddings=False)
    assert not load_folder(folder).tensors["unembed.weight"].any()


def test_an_index_that_does_not_fit_is_refused(tmp_path: Path):
    folder = saved(llama, tmp_path, max_shard_size="10KB")
    index = (folder / INDEX).read_text()
    first = min(folder.glob("*.safetensors")).name
    for other, told in (
        ("../" + first, "not a safetensors file in its folder"),
        ("/etc/passwd", "not a safetensors file in its folder"),
        ("pytorch_model.bin", "not a safetensors file in its folder"),
        ("absent.safetensors", "absent.safetensors, which is missing"),
    ):
        (folder / INDEX).write_text(index.replace(first, other))
        with pytest.raises(BadModelFolder, match=told):
            load_folder(folder)
    (folder / INDEX).write_text("{}")
    with pytest.raises(BadModelFolder, match="weight_map"):
        load_folder(folder)
    (folder / INDEX).unlink()
    with pytest.raises(BadModelFolder, match=f"no {INDEX}"):
        load_folder(folder)
