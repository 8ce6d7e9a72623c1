"""The contract of every method on every family, over the registries.

Counts, bases, replicates, gradients and claims.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tests.engine.making import (
    ANYWHERE,
    DIGIT_TASKS,
    LACKING,
    OTHER_SMALL,
    OTHER_TINY,
    SMALL_OF_EACH,
    TINY_OF_EACH,
    VARIANTS,
    Remembering,
    adaptation,
    base_tensors,
    items,
    method_pairs,
    one_larger,
    one_layer,
    perturbed,
    rounding,
    single,
    sized,
    trainables,
    unsized,
)
from torch.nn import functional

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.items.task_items import make_items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.checkpoint import read_tensors, write_checkpoint
from adaptlab.engine.models.model import Model
from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_FOLDS, ENGINE_METHODS, ENGINE_TASKS
from adaptlab.engine.training.train import Training
from adaptlab.errors import InfeasibleBudget, InvalidSpec
from adaptlab.families.llama import Llama
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.registry import by_name
from adaptlab.specs.budget import budget_vector, solve, trainable_parameters

NAMES = (*ANYWHERE, *VARIANTS)
SMALL, TINY = SMALL_OF_EACH | OTHER_SMALL, TINY_OF_EACH | OTHER_TINY
every_family = pytest.mark.parametrize("family", SMALL)


TRAINED = [name for name in NAMES if name != "frozen"]
# DoRA's gradient is defined with the row lengths held fixed; see test_lora.py.
HELD = {"lora-dora", "combine-four"}
SMOOTH = [name for name in TRAINED if name not in HELD]


def pairs(names: Iterable[str]) -> pytest.MarkDecorator:
    """Every family with each of the methods that it has sites for."""
    return pytest.mark.parametrize(("name", "family"), method_pairs(names))


every_pair, trained_pair, smooth_pair = pairs(NAMES), pairs(TRAINED), pairs(SMOOTH)
moving_pair = pairs(name for name in NAMES if not unsized(name).is_search)


def configured(name: str) -> dict[str, object]:
    return sized(name).model_dump(mode="json")


def test_every_declaration_has_its_engine_half():
    assert ENGINE_METHODS.names() == METHODS.names()
    assert set(ENGINE_FOLDS.names()) <= set(METHODS.names())
    assert ENGINE_TASKS.names() == DIGIT_TASKS
    assert ENGINE_FAMILIES.names() == FAMILIES.names()
    assert {family.name for family in SMALL_OF_EACH.values()} == set(FAMILIES.names())


@pytest.mark.long("every combination", but="each")
@every_pair
def test_declared_allocated_and_solved_counts_are_one(name: str, family: str):
    plan = adaptation(configured(name), family=SMALL[family], base_replicates=2)
    allocated = trainables(plan, base_tensors(plan))
    assert plan.method is not None
    vector = budget_vector(plan.method, plan.shape, None)
    assert {n: t[0].numel() for n, t in allocated.tensors.items()} == vector.tensors
    assert allocated.scalars_per_replicate == vector.trainable_parameters
    assert allocated.flat.shape == (2, trainable_parameters(plan.method, plan.shape))


@moving_pair
def test_the_optimiser_moves_exactly_the_trained_scalars(name: str, family: str, tmp_path: Path):
    training = {"precision": "float64", "steps": 4, "batch_size": 12, "validations": 1}
    plan = adaptation(
        configured(name),
        family=SMALL[family],
        tuning={"validation_samples": 4},
        training=training,
    )
    base = base_tensors(plan)
    allocated = trainables(plan, base)
    before = allocated.flat.clone()
    untouched = {n: t.clone() for n, t in base.items()}
    Training(plan, Model(plan, base, allocated.tensors), allocated, Remembering()).run(tmp_path)
    moved = (allocated.flat != before).sum().item()
    # The base has two tokens beyond the alphabet, whose embeddings nothing ever asks for unless
    # they are the head's too; and in the last layer only answer rows are computed, so that the
    # others' strengths stay.
    unasked = 0 if plan.shape.tied else 2 * base["embed.weight"].shape[-1]
    unused = {
        "full_finetuning": unasked,
        "from_scratch": unasked,
        "attention_bias": plan.shape.heads * plan.family.answer_start(plan.task.input_length()),
    }
    assert moved == before.numel() - unused.get(name, 0)
    assert all(torch.equal(base[n], untouched[n]) for n in base), "the base is bit-identical"


BUDGETS = (300, 1000, 5000)


@pytest.mark.long("every combination", but="each")
@every_pair
def test_the_solved_size_is_the_largest_within_the_budget(name: str, family: str):
    for budget in BUDGETS:
        shape = SMALL[family].resolved(8, 9).shape()
        method = unsized(name)
        try:
            solved = solve(method, shape, budget)
        except InfeasibleBudget as error:
            nearest = error.problems[0].nearest[0]
            assert isinstance(nearest, int)
            assert nearest > budget
            assert trainable_parameters(solve(method, shape, nearest), shape) == nearest
            continue
        assert trainable_parameters(solved, shape) <= budget
        for larger in one_larger(solved, shape):
            assert trainable_parameters(larger, shape) > budget


@pytest.mark.long("every combination", but="each")
@trained_pair
def test_detaching_restores_the_base(name: str, family: str):
    plan = adaptation(configured(name), family=SMALL[family])
    base = base_tensors(plan)
    made = items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    plain = Model(plan, base, {}).base_logits(made.tokens, slice(None))
    assert torch.equal(model.base_logits(made.tokens, slice(None)), plain)
    assert not torch.allclose(model.logits(made.tokens, slice(None)), plain)


@pytest.mark.long("every combination", but="each")
@every_pair
def test_a_replicate_in_a_stack_trains_as_it_would_alone(name: str, family: str, tmp_path: Path):
    """Of two seeds with two trials each, as replicates 0 to 3.

    Compared are the two that a mix-up of seeds and trials would exchange; the first and the last
    would stay where they are.
    """
    # the second step is the first that uses the moments of the optimiser
    training = {"precision": "float64", "steps": 2, "batch_size": 3, "validations": 1}
    plan = adaptation(
        configured(name),
        family=SMALL[family],
        base_replicates=2,
        tuning={"trials": 2, "validation_samples": 4},
        training=training,
    )
    base = base_tensors(plan, 2)
    stacked = trainables(plan, base)
    Training(plan, Model(plan, base, stacked.tensors), stacked, Remembering()).run(tmp_path)
    for replicate in (1, 2):
        alone_plan = single(plan, replicate)
        own_base = {n: t[[replicate // plan.trials]] for n, t in base.items()}
        alone = trainables(alone_plan, own_base)
        model = Model(alone_plan, own_base, alone.tensors)
        Training(alone_plan, model, alone, Remembering()).run(tmp_path)
        # Steps have the size of a learning rate whatever that of a gradient, and so enlarge the
        # rounding of gradients that are nearly 0; a mix-up is 1e-3 and more.
        assert torch.allclose(stacked.flat[replicate], alone.flat[0], rtol=0, atol=1e-8)


@pytest.mark.long("every combination", but="each")
@smooth_pair
def test_gradients_agree_with_finite_differences(name: str, family: str):
    plan = adaptation(configured(name), family=TINY[family])
    base, made = base_tensors(plan), items(plan, 2)
    start = perturbed(plan, trainables(plan, base).tensors)
    names = list(start)

    def loss(*tensors: torch.Tensor) -> torch.Tensor:
        model = Model(plan, base, dict(zip(names, tensors, strict=True)))
        logits = model.logits(made.tokens, target_rows(plan.task))
        return functional.cross_entropy(logits.flatten(0, 2), made.targets.flatten())

    tensors = tuple(start[n].clone().requires_grad_() for n in names)
    assert torch.autograd.gradcheck(loss, tensors, fast_mode=True)


@pytest.mark.long("every combination", but="each")
@every_pair
def test_the_claim_about_first_layer_attention_holds(name: str, family: str):
    plan = adaptation(configured(name), family=SMALL[family])
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    before, after = LayerRecorder(), LayerRecorder()
    model.base_logits(made.tokens, slice(None), before)
    model.logits(made.tokens, slice(None), after)
    deviation = (before.relative[0] - after.relative[0]).abs().max().item()
    assert plan.method is not None
    if plan.method.first_layer_attention == "can_change":
        assert deviation > 1e-4
    else:
        assert deviation < 1e-12
        if name in ("frozen", "head_only"):
            return  # nothing before the head changes at all
        deeper = (before.relative[1] - after.relative[1]).abs().max().item()
        assert deeper > 1e-5, "the honest statement is: not in one layer, never: not at all"


@pytest.mark.long("every combination", but="each")
@every_pair
def test_a_checkpoint_comes_back_as_it_was(name: str, family: str, tmp_path: Path):
    plan = adaptation(configured(name), family=SMALL[family])
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    kept = model.kept()
    tensors = {n: t[0] for n, t in kept.trained.items()}
    written = write_checkpoint(kept.plan, tensors, seed=0, replicate=0, scratch=tmp_path)
    read = read_tensors(written.path, {n: t.shape for n, t in kept.plan.trained_shapes.items()})
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[n], tensors[n]) for n in tensors)
    assert 4 * written.checkpoint.parameters == plan.spec.budget.stored_bytes
    loaded = Model(kept.plan, base, {n: t.unsqueeze(0) for n, t in read.items()})
    found, expected = (m.logits(made.tokens, slice(None)) for m in (loaded, model))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    with safe_open(written.path, framework="pt") as file:
        described = json.loads(file.metadata()["adaptlab"])
    assert by_name(METHODS, described["method"]) == kept.plan.method


@pytest.mark.parametrize(("name", "family"), sorted(LACKING))
def test_a_method_whose_sites_a_family_lacks_is_refused_with_those_it_has(name: str, family: str):
    with pytest.raises(InvalidSpec) as refused:
        adaptation(configured(name), family=SMALL[family])
    problem = refused.value.problems[0]
    assert problem.pointer == "/method/name"
    assert "kinds embedding, linear" in problem.detail


def test_bitfit_on_a_model_without_biases_is_refused_and_the_nearest_method_named():
    with pytest.raises(InvalidSpec) as refused:
        adaptation("bitfit", family=Llama(layers=1, heads=2, key_value_heads=1, width=8))
    (problem,) = refused.value.problems
    assert problem.pointer == "/method/name"
    assert problem.nearest == ("layernorm_tuning",)
    adaptation("layernorm_tuning", family=Llama(layers=1, heads=2, key_value_heads=1, width=8))


def test_a_tied_head_that_is_trained_alone_leaves_the_embedding():
    plan = adaptation("head_only", family=SMALL_OF_EACH["gpt2"])
    base, made = base_tensors(plan), items(plan)
    assert "unembed.weight" not in base
    start = trainables(plan, base).tensors
    assert torch.equal(start["unembed.weight"], base["embed.weight"])
    before = Model(plan, base, start).base_logits(made.tokens, slice(None))
    found = Model(plan, base, start).logits(made.tokens, slice(None))
    # A head per replicate is another product than one head for all.
    assert torch.allclose(found, before, rtol=0, atol=rounding(before))
    doubled = Model(plan, base, {"unembed.weight": 2 * start["unembed.weight"]})
    assert torch.allclose(doubled.logits(made.tokens, slice(None)), 2 * before)


def as_first_input(prompt: torch.Tensor, base: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return virtual tokens [R, P, C] as their model's first block reads them."""
    if "embed_norm.weight" not in base:
        return prompt
    weight, bias = base["embed_norm.weight"][0], base["embed_norm.bias"][0]
    whole = prompt + base["token_types.weight"][0, 0]
    return functional.layer_norm(whole, weight.shape, weight, bias, 1e-12)


@every_family
def test_in_one_layer_a_prefix_row_is_a_virtual_token(family: str):
    single_layer = one_layer(SMALL[family])
    prefix = adaptation({"name": "prefix_tuning", "length": 3}, family=single_layer)
    prompt = adaptation({"name": "soft_prompt", "length": 3}, family=single_layer)
    base, made = base_tensors(prefix), items(prefix)
    trained = perturbed(prompt, trainables(prompt, base).tensors)
    rows = {"blocks.0.attn.input": as_first_input(trained["embed.prompt"], base)}
    expected = Model(prompt, base, trained).logits(made.tokens, slice(None))
    found = Model(prefix, base, rows).logits(made.tokens, slice(None))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.long("every combination", but="each")
@every_pair
@pytest.mark.parametrize("groups", [1, 2])
def test_shared_items_give_what_repeated_items_give(name: str, family: str, groups: int):
    plan = adaptation(
        configured(name), family=SMALL[family], base_replicates=2, tuning={"trials": 3}
    )
    base = base_tensors(plan, groups)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    made = make_items(plan.task, "train", plan.seeds, 0, 3)
    for rows in (slice(None), target_rows(plan.task)):
        shared = lifted(model.logits(made.tokens, rows), plan.replicates)
        repeated = lifted(model.logits(lifted(made.tokens, plan.replicates), rows), plan.replicates)
        assert torch.allclose(shared, repeated, rtol=0, atol=1e-12)
    one = lifted(model.logits(made.tokens[:1], slice(None)), plan.replicates)
    several = lifted(made.tokens[:1], plan.replicates)
    assert torch.allclose(
        one, lifted(model.logits(several, slice(None)), plan.replicates), rtol=0, atol=1e-12
    )
