"""Published decoders that the library computes.

The reference is the library's own model of the same weights.

Each way in which a foreign model can be misread silently has a test here: no mask, attention that
does not go through our function, tied weights, fused matrices, windows and positions.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from tests.engine.image_models import IMAGES
from tests.engine.library_models import HEADLESS, MASK, MODELS, WINDOW
from tests.engine.making import SMALL_OF_EACH, adaptation, qwen3
from tests.engine.published import Pair, pair
from tests.engine.published_table import EVERY_MODEL, sites_of
from torch import Tensor

from adaptlab.engine.families.transformers import forward
from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.items.task_items import make_items
from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models import library_model
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.errors import BadModelFolder
from adaptlab.families.transformers import (
    TIED_BY_DEFAULT,
    WITHOUT_HEAD,
    Architecture,
    Transformers,
)
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import Method
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.cost import work
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec
from adaptlab.weights.huggingface import PublishedFamily

TOLERANCE = {False: 1e-4, True: 1e-6}
"""The library rounds its table of rotary frequencies to float32, also for float64 weights."""
ENCODERS = ("bert", "distilbert", "modernbert", "roberta")
each_model = pytest.mark.parametrize("name", MODELS)
both_precisions = pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])


def family_of(both: Pair) -> Transformers:
    assert isinstance(both.ours.family, Transformers)
    return both.ours.family


def drawn(method: Method, both: Pair) -> dict[str, Tensor]:
    """Random tensors for a method, large enough to matter."""
    generator = torch.Generator().manual_seed(7)
    return {
        name: 0.5 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in method.tensors(both.ours.family.shape()).items()
    }


def with_both_last_tokens(both: Pair, method: Method) -> tuple[Tensor, Tensor]:
    """The logits of two inputs that differ in their last token."""
    shape = both.ours.family.shape()
    stacked = {n: t.unsqueeze(0) for n, t in drawn(method, both).items()}
    attached = ENGINE_METHODS.get(method.name)(method, shape, stacked)
    base = {tensor: t.unsqueeze(0) for tensor, t in both.ours.tensors.items()}
    tokens = both.tokens().unsqueeze(0)
    later = tokens.clone()
    later[..., -1] = (later[..., -1] + 1) % shape.vocabulary
    before, after = (
        forward(family_of(both), base, each, attached, slice(None)) for each in (tokens, later)
    )
    return before, after


@both_precisions
@each_model
def test_logits_and_patterns_are_those_of_the_library(name: str, double: bool, tmp_path: Path):
    both, recorder = pair(MODELS[name], tmp_path, double=double), LayerRecorder()
    logits = both.logits(recorder=recorder)
    expected = both.expected(output_attentions=True)
    assert (logits - expected.logits).abs().max() < TOLERANCE[double]
    assert (both.logits() - expected.logits).abs().max() < TOLERANCE[double]  # fused attention
    for ours, theirs in zip(recorder.patterns, expected.attentions, strict=True):
        assert (ours[0] - theirs).abs().max() < TOLERANCE[double]


@each_model
def test_parameters_are_counted_as_by_the_library(name: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=False)
    assert both.ours.family.shape().parameters == both.theirs.num_parameters()


@each_model
def test_a_token_is_its_embedding_times_the_scale(name: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=True)
    embedding = both.theirs.get_input_embeddings()
    with torch.no_grad():
        read = embedding(torch.arange(8))
    expected = family_of(both).shape().embedding_scale * embedding.weight[:8]
    assert (read - expected).abs().max() < 1e-6 * expected.abs().max()


def test_the_head_is_tied_by_default_where_the_library_ties_it():
    import transformers

    known: Any = transformers
    names = set(get_args(Architecture)) - set(WITHOUT_HEAD)
    tied = {name for name in names if getattr(known, name).config_class().tie_word_embeddings}
    assert tied == set(TIED_BY_DEFAULT)


@each_model
def test_lora_at_every_matrix_is_the_library_with_merged_weights(name: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=False)
    family, shape = family_of(both), both.ours.family.shape()
    untied = [site.name for site in shape.linear_sites if f"{site.name}.weight" in shape.tensors]
    method = Lora(rank=2, alpha=3.0, sites=tuple(untied))
    tensors = drawn(method, both)
    shapes = {key: tuple(tensor.shape) for key, tensor in both.theirs.named_parameters()}
    places = family.with_tensors(shapes).published_tensors()
    with torch.no_grad():
        parameters = dict(both.theirs.named_parameters())
        for site in untied:
            place = places[f"{site}.weight"]
            stored = parameters[place.name]
            update = (
                method.scale_at(shape.sites[site]) * tensors[f"{site}.b"] @ tensors[f"{site}.a"]
            )
            stored[place.start : place.start + len(update)] += update
    expected = both.expected().logits
    found = both.adapted(method, tensors)
    assert (found - both.logits()).abs().max() > 0.05
    assert (found - expected).abs().max() < 2e-4


@each_model
def test_trained_weights_replace_those_of_the_library_also_where_two_are_one(
    name: str, tmp_path: Path
):
    both = pair(MODELS[name], tmp_path, double=False)
    generator = torch.Generator().manual_seed(11)
    trained = {
        tensor: torch.stack([t + 0.1 * torch.randn(t.shape, generator=generator) for _ in "ab"])
        for tensor, t in both.ours.tensors.items()
    }
    base = {tensor: t.unsqueeze(0) for tensor, t in both.ours.tensors.items()}
    tokens = both.tokens().unsqueeze(0)
    found = forward(
        family_of(both), base, tokens, Attachments(weights=trained, replicates=2), slice(None)
    )
    for replicate in range(2):
        alone = {tensor: t[[replicate]] for tensor, t in trained.items()}
        expected = forward(family_of(both), alone, tokens, Attachments(), slice(None))
        assert (found[replicate] - expected[0]).abs().max() < 1e-4
    assert (found[0] - found[1]).abs().max() > 0.05


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ENCODERS])
@pytest.mark.parametrize(
    "method",
    [
        PrefixTuning(length=3),
        PrefixTuning(length=3, side="key_value"),
        SoftPrompt(length=3),
        Lora(rank=1),
    ],
    ids=["prefix", "keys-and-values", "prompt", "lora"],
)
def test_no_position_sees_the_future(name: str, method: Method, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=False)
    shape = both.ours.family.shape()
    if isinstance(method, Lora) and not shape.matching_sites("q"):
        method = Lora(rank=1, sites=("qkv",))
    before, after = with_both_last_tokens(both, method)
    assert (before[..., :-1, :] - after[..., :-1, :]).abs().max() < 1e-5
    assert (before[..., -1, :] - after[..., -1, :]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize(
    "method",
    [PrefixTuning(length=3), PrefixTuning(length=3, side="key_value"), SoftPrompt(length=3)],
    ids=["prefix", "keys-and-values", "prompt"],
)
def test_every_position_of_an_encoder_sees_all_others(name: str, method: Method, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=False)
    before, after = with_both_last_tokens(both, method)
    assert (before - after).abs().amax((0, 1, 3)).min() > 1e-3


def test_learned_positions_that_stand_in_every_item_cost_as_much_as_its_tokens():
    """Our models compute them once for all items."""
    flops = {
        (family, length): work(adaptation(method, family=SMALL_OF_EACH[family]).spec).training.flops
        for family in ("transformers", "minigpt")
        for length in (1, 41)
        for method in [{"name": "soft_prompt", "length": length}]
    }
    assert flops["transformers", 41] > 3.5 * flops["transformers", 1]
    assert flops["minigpt", 41] < 2 * flops["minigpt", 1]


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_reads_masks_and_predicts_each_answer_token_in_its_place(
    name: str, tmp_path: Path
):
    both = pair(MODELS[name], tmp_path, double=False)
    facts = BaseModelFacts(
        name="base", digest="0" * 64, family=family_of(both), task=None, replicates=1
    )
    spec = {
        "base_model": "base",
        "task": {"name": "sort_descending", "length": 4, "alphabet": 6},
        "method": "frozen",
    }
    plan = make_plan(resolve(AdaptSpec.model_validate(spec), facts), "cpu")
    base = {tensor: t.unsqueeze(0) for tensor, t in both.ours.tensors.items()}
    made = make_items(plan.task, "train", plan.seeds[:1], 0, 3)
    found = Model(plan, base, {}).base_logits(made.tokens, target_rows(plan.task))
    question = made.tokens[0, :, : plan.task.input_length()]
    masks = torch.full_like(made.targets[0], MASK)
    first = 2 if name == "roberta" else 0
    places = torch.arange(first, first + question.shape[1] + masks.shape[1]).unsqueeze(0)
    with torch.no_grad():
        read = torch.cat([question, masks], 1)
        expected = both.theirs(read, position_ids=places).logits[:, question.shape[1] :]
    assert (found[0] - expected).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["gemma2", "gemma3"])
@pytest.mark.parametrize("side", ["input", "key_value"])
def test_a_prefix_is_seen_from_beyond_a_window(name: str, side: Any, tmp_path: Path):
    both, recorder = pair(MODELS[name], tmp_path, double=False), LayerRecorder()
    method = PrefixTuning(length=2, side=side)
    stacked = {n: t.unsqueeze(0) for n, t in drawn(method, both).items()}
    attached = ENGINE_METHODS.get(method.name)(method, both.ours.family.shape(), stacked)
    both.logits(attached, recorder)
    windowed = recorder.patterns[0][0]  # B, H, T, 2 + T
    assert windowed[..., :2].min() > 0
    assert windowed[..., WINDOW + 1 :, 2].max() == 0, "content is out of sight"


def test_rows_that_are_asked_for_are_those_of_all(tmp_path: Path):
    both = pair(MODELS["qwen3"], tmp_path, double=False)
    base = {tensor: t.unsqueeze(0) for tensor, t in both.ours.tensors.items()}
    tokens, prompt = both.tokens().unsqueeze(0), 0.3 * torch.ones(1, 2, 24)
    for attached in (Attachments(), Attachments(prompt=prompt)):
        every = forward(family_of(both), base, tokens, attached, slice(None))
        at_head: list[int] = []

        def counted(x: Tensor, y: Tensor, at_head: list[int] = at_head) -> Tensor:
            at_head.append(x.shape[2])
            return y

        watched = replace(attached, outputs={"unembed": counted})
        some = forward(family_of(both), base, tokens, watched, slice(4, 9))
        assert torch.allclose(some, every[:, :, 4:9], atol=1e-5)
        assert at_head == [5], "logits of other rows would take most of the memory"


@pytest.mark.parametrize("name", ["phi3", "modernbert"])
def test_the_parts_of_a_fused_matrix_are_queries_keys_and_values(name: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=False)

    def pattern(part: str | None) -> Tensor:
        """Return the first pattern where a part is zero at the last position."""
        recorder, site = LayerRecorder(), f"blocks.0.attn.{part}"
        cut = Attachments(
            outputs={site: lambda _, y: torch.cat([y[:, :, :-1], 0 * y[:, :, -1:]], 2)}
        )
        both.logits(Attachments() if part is None else cut, recorder)
        return recorder.patterns[0][0]  # B, H, T, T

    plain, by_query, by_key, by_value = map(pattern, (None, "q", "k", "v"))
    assert torch.equal(by_value, plain)
    assert torch.equal(by_query[..., :-1, :], plain[..., :-1, :])
    seen = by_query[..., -1, :]
    assert torch.allclose(seen[seen > 0], 1 / (seen > 0).sum(-1).max().float()), "indifferent"
    assert (by_key[..., -1, :] - plain[..., -1, :]).abs().max() > 1e-3
    assert (by_key[..., -1, :] - by_query[..., -1, :]).abs().max() > 1e-3


def test_attention_that_does_not_pass_our_function_is_refused(monkeypatch: pytest.MonkeyPatch):
    family = qwen3(6, 4, 5)
    model = library_model.LibraryModel(family)
    monkeypatch.setattr(model._module.config, "_attn_implementation", "eager")
    weights = {name: torch.zeros(1, *t.shape) for name, t in family.shape().tensors.items()}
    weights["unembed.weight"] = weights["unembed.weight"] + 1
    tokens = torch.zeros(1, 1, 3, dtype=torch.int64)
    with pytest.raises(BadModelFolder, match="registry of transformers"):
        model.logits(weights, tokens, Attachments(), slice(None), None)


def test_tensors_that_the_configuration_does_not_describe_are_refused():
    family = qwen3(6, 4, 5)
    stored = {**family.stored, "model.layers.*.mlp.up_proj.weight": (7, 6)}
    other = Transformers(architecture=family.architecture, config=family.config, stored=stored)
    with pytest.raises(BadModelFolder, match=r"differ in 2 tensors, blocks.0.mlp.up.weight"):
        library_model.LibraryModel(other)


def test_the_page_lists_every_architecture_with_its_sites(tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "published-models.md").read_text()
    listed = {
        tuple(cell.strip(" `") for cell in line.split("|")[1:4])
        for line in page.splitlines()
        if line.startswith("| `")
    }
    every = {**EVERY_MODEL, **HEADLESS, **IMAGES}
    made = (pair(make, tmp_path / name, double=False) for name, make in every.items())
    expected = {(type(m.theirs).__name__, m.ours.family.name, sites_of(m)) for m in made}
    assert listed == expected
    families = (FAMILIES.get(name) for name in FAMILIES.names())
    published = [f.architectures for f in families if issubclass(f, PublishedFamily)]
    assert {name for names in published for name in names} == {name for name, *_ in listed}
