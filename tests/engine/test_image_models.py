"""Published models of images that the library computes.

The reference is the library's own model of the same weights; for visual prompts it is a plain loop
over its layers, for LoRA `peft`.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tests.engine.image_models import IMAGES, ImagePair, image_pair

from adaptlab.engine.families.transformers import forward
from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.huggingface import load_folder
from adaptlab.engine.models.library_model import Float64
from adaptlab.errors import BadModelFolder
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.plugins.images import Preprocessor
from adaptlab.weights.model_folder import check_folder, fingerprint
from adaptlab.weights.placed_folder import PlacedFolder
from adaptlab.weights.preprocessor import PREPROCESSOR

TOLERANCE = {False: 1e-5, True: 1e-12}
each_model = pytest.mark.parametrize("name", IMAGES)
both_precisions = pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the largest expected number."""
    return float((found - expected).abs().max() / expected.abs().max())


@both_precisions
@each_model
def test_logits_and_patterns_are_those_of_the_library(name: str, double: bool, tmp_path: Path):
    both, recorder = image_pair(name, tmp_path, double=double), LayerRecorder()
    expected, out = both.expected(output_attentions=True)
    assert difference(both.logits(), expected) < TOLERANCE[double]
    assert difference(both.logits(recorder=recorder), expected) < TOLERANCE[double]
    for ours, theirs in zip(recorder.patterns, out.attentions, strict=True):
        assert (ours[0] - theirs).abs().max() < TOLERANCE[double]


def test_pixels_are_seen_as_the_preprocessor_says(tmp_path: Path):
    both = image_pair("vit-colours", tmp_path, double=True)
    plain = both.logits()
    numbers = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7], "rescale_factor": 0.01}
    (tmp_path / PREPROCESSOR).write_text(json.dumps(numbers))
    read = replace(both, ours=load_folder(tmp_path, torch.float64))
    mean, std = (
        torch.tensor(numbers[name], dtype=torch.float64).view(3, 1, 1)
        for name in ("image_mean", "image_std")
    )
    levels = both.tokens.unflatten(-1, (3, 6, 6)).double()
    with torch.no_grad(), Float64():
        out = both.theirs(pixel_values=(0.01 * levels - mean) / std)
    expected = out.last_hidden_state[:, 0] @ both.head[0].T + both.head[1]
    assert difference(plain, expected) > 0.01
    assert difference(read.logits(), expected) < TOLERANCE[True]


def test_the_head_is_read_as_the_library_reads_its_own(tmp_path: Path):
    both = image_pair("vit", tmp_path, double=True)
    with torch.no_grad(), Float64():
        expected = both.theirs(both.pixels).logits
    assert difference(both.logits(), expected) < TOLERANCE[True]


@each_model
def test_parameters_are_counted_as_by_the_library_without_its_head(name: str, tmp_path: Path):
    both = image_pair(name, tmp_path, double=False)
    left_out = sum(
        parameter.numel()
        for key, parameter in both.theirs.named_parameters()
        if key.startswith(("classifier", "pooler"))
    )
    shape = both.family.shape()
    assert shape.parameters == both.theirs.num_parameters() - left_out
    size = both.family.image()
    assert size is not None
    assert shape.context == both.theirs.base_model.embeddings.position_embeddings.shape[1]
    assert both.family.positions_of(size.tokens) == shape.context


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@both_precisions
@pytest.mark.parametrize("options", [{}, {"use_rslora": True}, {"use_dora": True}], ids=str)
def test_lora_is_that_of_peft(options: dict[str, Any], double: bool, tmp_path: Path):
    both = image_pair("vit", tmp_path, double=double)
    method = Lora(
        rank=2,
        alpha=3.0,
        sites=("q", "v", "up"),
        dora="use_dora" in options,
        scaling="rank_stabilised" if "use_rslora" in options else "standard",
    )
    tensors = both.drawn(method)
    targets = ["q_proj", "v_proj", "fc1"]
    config = LoraConfig(r=2, lora_alpha=3, target_modules=targets, **options)
    model: Any = get_peft_model(both.theirs, config).eval()
    modules = {"attn.q": "attention.q_proj", "attn.v": "attention.v_proj", "mlp.up": "mlp.fc1"}
    for site in (key.removesuffix(".a") for key in tensors if key.endswith(".a")):
        _, layer, part = site.split(".", 2)
        adapter = model.base_model.model.vit.layers[int(layer)].get_submodule(modules[part])
        adapter.lora_A["default"].weight.data = tensors[f"{site}.a"]
        adapter.lora_B["default"].weight.data = tensors[f"{site}.b"]
        if method.dora:
            adapter.lora_magnitude_vector["default"].weight.data = tensors[f"{site}.magnitude"]
    with torch.no_grad(), Float64() if double else torch.no_grad():
        expected = model(both.pixels).logits
    found = both.adapted(method, tensors)
    assert difference(found, both.logits()) > 0.01
    assert difference(found, expected) < TOLERANCE[double]


def prompted(both: ImagePair, prompts: list[torch.Tensor]) -> torch.Tensor:
    """Logits with visual prompts behind the class token.

    One is shallow, several are deep. The prompts of each layer replace what the layer
    before made of its own.
    """
    inner = both.theirs.base_model
    with torch.no_grad(), Float64():
        x = inner.embeddings(both.pixels)
        for layer, block in enumerate(inner.layers):
            if layer < len(prompts):
                rows = prompts[layer].expand(len(x), -1, -1)
                left = x[:, 1 + (rows.shape[1] if layer else 0) :]
                x = torch.cat([x[:, :1], rows, left], 1)
            x = block(x)
        state = inner.layernorm(x)[:, 0]
    return state @ both.head[0].T + both.head[1]


@each_model
def test_a_soft_prompt_is_a_shallow_visual_prompt(name: str, tmp_path: Path):
    both, method = image_pair(name, tmp_path, double=True), SoftPrompt(length=3)
    tensors = both.drawn(method)
    found = both.adapted(method, tensors)
    assert difference(found, both.logits()) > 0.01
    assert difference(found, prompted(both, [tensors["embed.prompt"]])) < TOLERANCE[True]


@each_model
def test_a_prefix_on_the_input_side_is_a_deep_visual_prompt(name: str, tmp_path: Path):
    both, method = image_pair(name, tmp_path, double=True), PrefixTuning(length=3)
    tensors = both.drawn(method)
    found = both.adapted(method, tensors)
    assert difference(found, both.logits()) > 0.01
    assert difference(found, prompted(both, list(tensors.values()))) < TOLERANCE[True]


@each_model
def test_bases_of_replicates_are_computed_together_as_alone(name: str, tmp_path: Path):
    both = image_pair(name, tmp_path, double=True)
    generator = torch.Generator().manual_seed(11)
    trained = {
        key: torch.stack([t + 0.1 * torch.randn(t.shape, generator=generator) for _ in "ab"])
        for key, t in both.ours.tensors.items()
    }
    head = {"unembed.weight": both.head[0].unsqueeze(0)}
    base = {key: t.unsqueeze(0) for key, t in both.ours.tensors.items()}
    tokens = both.tokens.unsqueeze(0)
    read = torch.full_like(tokens[..., 0], tokens.shape[-1])

    def computed(weights: dict[str, torch.Tensor], replicates: int) -> torch.Tensor:
        whole = {**head, **weights}
        attached = Attachments(weights=whole, replicates=replicates, read=read, has_classes=True)
        return forward(both.family, base, tokens, attached, slice(None))

    found = computed(trained, 2)
    assert difference(found[0], found[1]) > 0.01
    for replicate in range(2):
        alone = computed({key: t[[replicate]] for key, t in trained.items()}, 1)
        assert difference(found[replicate], alone[0]) < TOLERANCE[True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": 12}, "position_embeddings has 1 × 17 × 24 numbers"),
        ({"patch_size": 4}, "describes"),
        ({"num_channels": 3}, "projection.weight has 24 × 1 × 2 × 2 numbers"),
        ({"patch_size": 3}, "patches of 3 do not divide"),
        ({"image_size": [8, 8]}, "image_size"),
    ],
    ids=str,
)
def test_files_that_contradict_the_configuration_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
):
    image_pair("vit", tmp_path, double=False)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(BadModelFolder, match=message):
        check_folder(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"size": {"height": 8, "width": 9}}, "a size of 8 × 9, and config.json .* of 8 × 8"),
        ({"size": 224, "do_resize": True}, "a size of 224 × 224"),
        ({"do_center_crop": True, "crop_size": {"height": 6, "width": 6}}, "a crop_size of 6 × 6"),
        ({"image_mean": [0.5, 0.5, 0.5]}, "3 values of image_mean, and .* num_channels 1"),
        ({"do_convert_rgb": True}, "sets do_convert_rgb, which gives 3 channels"),
        ({"image_std": [0]}, "has image_std a list"),
        ({"rescale_factor": "x"}, 'has rescale_factor "x"'),
        ({"do_flip_channel_order": True}, "sets do_flip_channel_order to true"),
        ([], "preprocessor_config.json is not a JSON object"),
    ],
    ids=str,
)
def test_preprocessors_that_contradict_the_model_are_refused(
    content: object, message: str, tmp_path: Path
):
    image_pair("vit", tmp_path, double=False)
    (tmp_path / PREPROCESSOR).write_text(json.dumps(content))
    with pytest.raises(BadModelFolder, match=message):
        check_folder(tmp_path)


def test_a_preprocessor_is_part_of_the_declaration_and_the_fingerprint(tmp_path: Path):
    both = image_pair("vit", tmp_path, double=False)
    before = fingerprint(check_folder(tmp_path))
    file = tmp_path / PREPROCESSOR
    file.write_text(json.dumps({"do_normalize": False, "size": {"height": 8, "width": 8}}))
    checked = check_folder(tmp_path)
    family = both.family.with_preprocessor(Preprocessor(mean=(0,), std=(1,), rescale=1 / 255))
    assert checked.family == family
    assert {f.name for f in fingerprint(checked)} - {f.name for f in before} == {PREPROCESSOR}
    # An import of an earlier version, which read no such file, keeps its declaration.
    older = PlacedFolder(path=tmp_path, name="models/vit", files=before)
    assert older.checked().family == both.family
    placed = older.model_copy(update={"files": fingerprint(checked)})
    assert placed.checked().family == family
    file.write_text(json.dumps({"do_normalize": False}))
    with pytest.raises(BadModelFolder, match=f"Changed since then: {PREPROCESSOR}"):
        placed.checked()
