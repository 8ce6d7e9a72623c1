"""Learned positions that start as tokens of the vocabulary.

Tests cover which tokens they are, for whom, and what it costs.

The rows of a layer start as the activations of the base model, so that a prefix computes at first
what a soft prompt of the same tokens computes: learned in every layer or at the input alone, the
tokens pass through the same layers.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.engine.making import (
    SMALL_OF_EACH,
    Remembering,
    adaptation,
    base_tensors,
    items,
    made_base,
    one_layer,
    single,
    trainables,
)
from tests.engine.running import run

from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.errors import InvalidSpec
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.methods.suffix_tuning import SuffixTuning
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.learned_positions import LearnedPositions
from adaptlab.plugins.registry import as_json
from adaptlab.runs.events import CheckpointWritten
from adaptlab.specs.budget import solve
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec, PretrainSpec

SOFT_PROMPT: dict[str, object] = {"name": "soft_prompt", "length": 5}
LATE_PROMPT: dict[str, object] = {"name": "suffix_tuning", "length": 5, "scope": "input_only"}
METHODS = [SOFT_PROMPT, LATE_PROMPT]
PREFIX: dict[str, object] = {"name": "prefix_tuning", "length": 5}
KEYS_VALUES: dict[str, object] = {**PREFIX, "side": "key_value"}
SUFFIX: dict[str, object] = {"name": "suffix_tuning", "length": 5}
LAYERED = [PREFIX, KEYS_VALUES, SUFFIX]
VOCABULARY = 8  # of the models below; two tokens are beyond the alphabet of the task
every_family = pytest.mark.parametrize("family", FAMILIES.names())
each = pytest.mark.parametrize("method", METHODS, ids=["prompt", "suffix"])
layered = pytest.mark.parametrize("method", LAYERED, ids=["prefix", "keys-values", "suffix"])
both = pytest.mark.parametrize(
    "method",
    [*METHODS, *LAYERED],
    ids=["prompt", "late", "prefix", "keys-values", "suffix"],
)


def started(plan: Plan, groups: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """The embedding [G, V, C] and the rows [R, P, C'] that start from it."""
    base = base_tensors(plan, groups)
    (rows,) = trainables(plan, base).tensors.values()
    return base["embed.weight"], rows.detach()


def drawn(table: torch.Tensor, rows: torch.Tensor) -> list[list[int]]:
    """Return the tokens [R][P] whose embeddings the rows start with.

    The embeddings are the same bit for bit. Zeros follow.
    """
    width = table.shape[-1]
    assert rows[..., width:].count_nonzero() == 0
    each = table.repeat_interleave(len(rows) // len(table), 0)  # R, V, C
    equal = (rows[:, :, None, :width] == each[:, None]).all(-1)  # R, P, V
    assert (equal.sum(-1) == 1).all()
    return equal.int().argmax(-1).tolist()


def from_vocabulary(method: dict[str, object], **changes: object) -> dict[str, object]:
    return {**method, "initialisation": "vocabulary", **changes}


@every_family
@each
def test_rows_are_embeddings_of_tokens_none_of_them_twice(method: dict[str, object], family: str):
    plan = adaptation(from_vocabulary(method), family=SMALL_OF_EACH[family], seeds=[0, 1, 2])
    tokens = drawn(*started(plan))
    assert all(len(set(of)) == 5 for of in tokens)
    assert len({tuple(of) for of in tokens}) == 3, "every seed draws its own"


@each
def test_a_longer_one_takes_the_whole_vocabulary_before_any_token_again(
    method: dict[str, object],
):
    plan = adaptation(from_vocabulary(method, length=2 * VOCABULARY + 3), seeds=[0, 1])
    for tokens in drawn(*started(plan)):
        first, second = tokens[:VOCABULARY], tokens[VOCABULARY : 2 * VOCABULARY]
        assert sorted(first) == sorted(second) == list(range(VOCABULARY))
        assert first != second
        assert len(set(tokens[2 * VOCABULARY :])) == 3


@each
def test_a_shorter_one_is_the_beginning_of_a_longer_one(method: dict[str, object]):
    short, long = (
        drawn(*started(adaptation(from_vocabulary(method, length=length)))) for length in (2, 5)
    )
    assert [of[:2] for of in long] == short


@each
def test_the_mask_of_a_bidirectional_model_is_no_token(method: dict[str, object]):
    family = SMALL_OF_EACH["minigpt"].model_copy(update={"attention": "bidirectional"})
    plan = adaptation(from_vocabulary(method, length=VOCABULARY), family=family)
    table, rows = started(plan)
    assert table.shape[1] == VOCABULARY + 1
    assert sorted(drawn(table, rows)[0]) == list(range(VOCABULARY))


@both
def test_it_costs_nothing(method: dict[str, object]):
    plain, plan = adaptation(method), adaptation(from_vocabulary(method))
    assert plan.spec.budget == plain.spec.budget


@each
def test_parts_of_combinations_have_it(method: dict[str, object]):
    parts = [from_vocabulary(method), {"name": "lora", "rank": 1}]
    combined = adaptation({"name": "combine", "parts": parts})
    base = base_tensors(combined)
    rows = next(iter(trainables(combined, base).tensors.values())).detach()
    assert len(set(drawn(base["embed.weight"], rows)[0])) == 5


@both
def test_the_default_starts_and_is_stored_as_before_there_was_a_choice(method: dict[str, object]):
    plain, named = adaptation(method), adaptation({**method, "initialisation": "normal"})
    assert plain.spec.method is not None
    assert "initialisation" not in as_json(plain.spec.method)
    assert spec_digest(plain.spec) == spec_digest(named.spec)
    other = adaptation(from_vocabulary(method))
    assert spec_digest(other.spec) != spec_digest(plain.spec)
    assert other.spec.method is not None
    assert other.spec.method == other.method


@pytest.mark.parametrize(
    ("method", "tuning", "pointer", "code"),
    [
        *[(from_vocabulary(method, initial_scale=0.5), {}, "/method/initial_scale",
           "nothing_to_scale") for method in [*METHODS, *LAYERED]],
        *[(from_vocabulary(method), {"initial_scales": [0.5, 1]}, "/tuning/initial_scales",
           "nothing_to_scale") for method in [*METHODS, *LAYERED]],
        (from_vocabulary(PREFIX, reparameterisation={"hidden": 3}), {}, "/method/initialisation",
         "generated_rows"),
        ({"name": "combine", "parts": [
            from_vocabulary(PREFIX, reparameterisation={"hidden": 3}), "lora"]}, {},
         "/method/parts/0/initialisation", "generated_rows"),
    ],
)  # fmt: skip
def test_a_scale_of_nothing_and_a_generated_prefix_are_refused(
    method: dict[str, object], tuning: dict[str, object], pointer: str, code: str
):
    with pytest.raises(InvalidSpec) as refused:
        adaptation(method, tuning=tuning)
    assert [(one.pointer, one.code) for one in refused.value.problems] == [(pointer, code)]


@pytest.mark.parametrize(
    "plain", [SoftPrompt(length=2), PrefixTuning(length=2), SuffixTuning(length=2)]
)
def test_a_family_without_a_vocabulary_is_refused_by_name(plain: LearnedPositions):
    full = SMALL_OF_EACH["minigpt"].resolved(8, 9).shape()
    tensors = {name: t for name, t in full.tensors.items() if name != "embed.weight"}
    shape = replace(full, family="wordless", tensors=tensors)
    solve(plain, shape, None)
    with pytest.raises(InvalidSpec, match="This wordless has no embeddings of tokens") as refused:
        solve(plain.model_copy(update={"initialisation": "vocabulary"}), shape, None)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code, problem.allowed) == (
        "/method/initialisation",
        "no_vocabulary",
        ("normal",),
    )


@each
@every_family
def test_what_one_layer_alone_reads_is_also_read_by_what_stands_for_it(
    method: dict[str, object], family: str
):
    plan = adaptation(from_vocabulary(method), family=one_layer(SMALL_OF_EACH[family]))
    assert isinstance(plan.method, LearnedPositions)
    standing = plan.method.equivalent_on(plan.shape)
    assert isinstance(standing, LearnedPositions)
    assert (standing.initialisation, standing.equivalent_on(plan.shape)) == ("vocabulary", standing)
    other = adaptation(standing.model_dump(mode="json"), family=one_layer(SMALL_OF_EACH[family]))
    drawn(*started(plan))
    assert (
        standing.without_size()
        == plan.method.model_copy(update={"initialisation": "normal"})
        .equivalent_on(plan.shape)
        .without_size()
    )
    if method is SOFT_PROMPT:
        assert torch.equal(started(plan)[1], started(other)[1]), "both draw the same tokens"
    else:
        drawn(*started(other))


def logits(plan: Plan, base: dict[str, torch.Tensor]) -> torch.Tensor:
    """What the plan's model answers before the first step."""
    return Model(plan, base, trainables(plan, base).tensors).logits(items(plan).tokens, slice(None))


@every_family
@pytest.mark.parametrize("method", [PREFIX, KEYS_VALUES], ids=["prefix", "keys-values"])
def test_a_prefix_computes_at_first_what_a_soft_prompt_of_the_tokens_does(
    method: dict[str, object], family: str
):
    plan, prompt = (
        adaptation(
            from_vocabulary(m), family=SMALL_OF_EACH[family], base_replicates=2, seeds=[0, 1]
        )
        for m in (method, SOFT_PROMPT)
    )
    base = base_tensors(plan, 2)
    found, expected = logits(plan, base), logits(prompt, base)
    assert (found - expected).abs().max() < 1e-12
    plain = Model(plan, base, {}).base_logits(items(plan).tokens, slice(None))
    assert (found - plain).abs().max() > 0.05, "which is not what the base does"


def test_it_takes_the_place_of_pads_like_a_soft_prompt():
    family = SMALL_OF_EACH["minigpt"].model_copy(update={"pad_positions": 3})
    plan, prompt = (
        adaptation(from_vocabulary(method), family=family) for method in (PREFIX, SOFT_PROMPT)
    )
    base = base_tensors(plan)
    assert (logits(plan, base) - logits(prompt, base)).abs().max() < 1e-12


def test_where_tokens_would_see_the_content_they_see_each_other_alone():
    """The first layer reads the same as of a soft prompt.

    The deeper layers of a soft prompt see the content.
    """
    family = SMALL_OF_EACH["minigpt"].model_copy(update={"attention": "bidirectional"})
    plan, prompt = (
        adaptation(from_vocabulary(method), family=family) for method in (PREFIX, SOFT_PROMPT)
    )
    base = base_tensors(plan)
    first, second = trainables(plan, base).tensors.values()
    (rows,) = trainables(prompt, base).tensors.values()
    assert torch.equal(first, rows)
    shorter = adaptation(from_vocabulary(PREFIX, length=2), family=family)
    other = list(trainables(shorter, base).tensors.values())
    assert torch.equal(other[0], first[:, :2])
    assert not torch.allclose(other[1], second[:, :2]), "the first token sees the later ones"


@every_family
@both
@pytest.mark.parametrize("groups", [1, 3], ids=["shared base", "a base per seed"])
def test_a_replicate_in_a_stack_starts_as_it_does_alone(
    groups: int, method: dict[str, object], family: str
):
    tuning = {"learning_rates": [0.1, 0.2]}
    plan = adaptation(
        from_vocabulary(method),
        family=SMALL_OF_EACH[family],
        base_replicates=groups,
        seeds=[4, 5, 6],
        tuning=tuning,
    )
    base = base_tensors(plan, groups)
    stack = trainables(plan, base)
    assert torch.equal(stack.flat[0::2], stack.flat[1::2]), "the trials of a seed start alike"
    assert len({tuple(row) for row in stack.flat.tolist()}) == 3, "every seed draws its own"
    for replicate in range(plan.replicates):
        group = 0 if groups == 1 else replicate // plan.trials
        own = {name: tensor[group : group + 1] for name, tensor in base.items()}
        alone = trainables(single(plan, replicate), own)
        assert torch.equal(alone.flat[0], stack.flat[replicate])


def test_parts_of_a_combination_draw_tokens_of_their_own():
    parts = [from_vocabulary(PREFIX), from_vocabulary(SUFFIX), {"name": "lora", "rank": 1}]
    plan = adaptation({"name": "combine", "parts": parts})
    base = base_tensors(plan)
    tensors = trainables(plan, base).tensors
    tokens = [
        drawn(base["embed.weight"], tensors[f"{name}.blocks.0.attn.input"].detach())[0]
        for name in ("prefix_tuning", "suffix_tuning")
    ]
    assert len(set(tokens[0])) == len(set(tokens[1])) == 5
    assert tokens[0] != tokens[1]


@layered
def test_a_run_starts_so(method: dict[str, object], tmp_path: Path):
    """The checkpoint holds what training started with.

    Training takes a step that moves nothing.
    """
    family: Family = SMALL_OF_EACH["minigpt"]
    task = {"name": "sort_descending", "length": 5, "alphabet": 6}
    few = {"steps": 1, "batch_size": 2}
    pretrain = PretrainSpec.model_validate(
        {"name": "base", "family": family.model_dump(mode="json"), "task": task, "training": few}
    )
    facts, bases = made_base(pretrain, tmp_path)
    asked = AdaptSpec.model_validate(
        {
            "base_model": "base",
            "task": task,
            "method": from_vocabulary(method),
            "training": {**few, "learning_rate": 1e-30},
            "seeds": [3],
        }
    )
    resolved = resolve(asked, facts)
    (tmp_path / "adapted").mkdir()
    observer = Remembering()
    run(resolved, bases, tmp_path / "adapted", observer, "cpu")
    (written,) = observer.of(CheckpointWritten)
    rows = load_file(written.path)
    base = {name: tensor[None] for name, tensor in load_file(bases[0]).items()}
    plan = make_plan(resolved, "cpu")
    for name, tensor in trainables(plan, base).tensors.items():
        assert torch.equal(rows[name], tensor[0]), name
    if method is not KEYS_VALUES:
        drawn(base["embed.weight"], rows["blocks.0.attn.input"][None])
