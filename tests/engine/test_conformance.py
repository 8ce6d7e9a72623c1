"""What every method promises on every family, over the registries.

Counts, bases, replicates, gradients and claims.
"""

from pathlib import Path

import pytest
import torch
from tests.engine.making import (
    SMALL_OF_EACH,
    TINY_OF_EACH,
    Remembering,
    adaptation,
    base_tensors,
    items,
    perturbed,
    single,
    sized,
    trainables,
)
from torch.nn import functional

from adaptlab.budget import budget_vector, solve, trainable_parameters
from adaptlab.engine.capture import Recorder
from adaptlab.engine.checkpoint import read_tensors, write_checkpoint
from adaptlab.engine.digits import target_rows
from adaptlab.engine.model import Model
from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_METHODS, ENGINE_TASKS
from adaptlab.engine.train import train
from adaptlab.errors import InfeasibleBudget, InvalidSpec
from adaptlab.families.llama import Llama
from adaptlab.family import FAMILIES
from adaptlab.method import METHODS
from adaptlab.task import TASKS

NAMES = METHODS.names()
every_method = pytest.mark.parametrize("name", NAMES)
every_family = pytest.mark.parametrize("family", FAMILIES.names())


trained_method = pytest.mark.parametrize("name", [name for name in NAMES if name != "frozen"])


def configured(name: str) -> dict[str, object]:
    return sized(name).model_dump(mode="json")


def test_every_declaration_has_its_engine_half():
    assert ENGINE_METHODS.names() == METHODS.names()
    assert ENGINE_TASKS.names() == TASKS.names()
    assert ENGINE_FAMILIES.names() == FAMILIES.names()


@every_family
@every_method
def test_declared_allocated_and_solved_counts_are_one(name: str, family: str):
    plan = adaptation(configured(name), family=SMALL_OF_EACH[family], base_replicates=2)
    allocated = trainables(plan, base_tensors(plan))
    assert plan.method is not None
    vector = budget_vector(plan.method, plan.shape, None)
    assert {n: t[0].numel() for n, t in allocated.tensors.items()} == vector.tensors
    assert allocated.scalars_per_replicate == vector.trainable_parameters
    assert allocated.flat.shape == (2, trainable_parameters(plan.method, plan.shape))


@every_family
@every_method
def test_the_optimiser_moves_exactly_the_trained_scalars(name: str, family: str):
    training = {"precision": "float64", "steps": 12}
    plan = adaptation(configured(name), family=SMALL_OF_EACH[family], training=training)
    base = base_tensors(plan)
    allocated = trainables(plan, base)
    before = allocated.flat.clone()
    untouched = {n: t.clone() for n, t in base.items()}
    train(plan, Model(plan, base, allocated.tensors), allocated, Remembering())
    moved = (allocated.flat != before).sum().item()
    # The base has two tokens beyond the alphabet, whose embeddings nothing ever asks for unless
    # they are the head's too; and in the last layer only answer rows are computed, so that the
    # others' strengths stay.
    unused = {
        "full_finetuning": 0 if plan.shape.tied else 2 * plan.shape.width,
        "attention_bias": plan.shape.heads * target_rows(plan.task).start,
    }
    assert moved == before.numel() - unused.get(name, 0)
    assert all(torch.equal(base[n], untouched[n]) for n in base), "the base is bit-identical"


@every_family
@every_method
@pytest.mark.parametrize("budget", [300, 1000, 5000])
def test_the_solved_size_is_the_largest_within_the_budget(name: str, budget: int, family: str):
    shape = SMALL_OF_EACH[family].resolved(8, 9).shape()
    method = METHODS.get(name)(name=name)
    try:
        solved = solve(method, shape, budget)
    except InfeasibleBudget as error:
        nearest = error.problems[0].nearest[0]
        assert isinstance(nearest, int)
        assert nearest > budget
        assert trainable_parameters(solve(method, shape, nearest), shape) == nearest
        return
    assert trainable_parameters(solved, shape) <= budget
    if solved.size_knob is not None and getattr(solved, solved.size_knob) < solved.largest_size(
        shape
    ):
        larger = solved.with_size(getattr(solved, solved.size_knob) + 1)
        assert trainable_parameters(larger, shape) > budget


@every_family
@trained_method
def test_detaching_restores_the_base(name: str, family: str):
    plan = adaptation(configured(name), family=SMALL_OF_EACH[family])
    base = base_tensors(plan)
    made = items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    plain = Model(plan, base, {}).base_logits(made.tokens, slice(None))
    assert torch.equal(model.base_logits(made.tokens, slice(None)), plain)
    assert not torch.allclose(model.logits(made.tokens, slice(None)), plain)


@every_family
@every_method
def test_a_replicate_in_a_stack_trains_as_it_would_alone(name: str, family: str):
    small, twice = SMALL_OF_EACH[family], {"trials": 2}
    plan = adaptation(configured(name), family=small, base_replicates=2, tuning=twice)
    base = base_tensors(plan, 2)
    stacked = trainables(plan, base)
    train(plan, Model(plan, base, stacked.tensors), stacked, Remembering())
    for replicate in range(plan.replicates):
        alone_plan = single(plan, replicate)
        own_base = {n: t[[replicate // plan.trials]] for n, t in base.items()}
        alone = trainables(alone_plan, own_base)
        train(alone_plan, Model(alone_plan, own_base, alone.tensors), alone, Remembering())
        assert torch.allclose(stacked.flat[replicate], alone.flat[0], rtol=0, atol=1e-10)


@every_family
@trained_method
def test_gradients_agree_with_finite_differences(name: str, family: str):
    plan = adaptation(configured(name), family=TINY_OF_EACH[family])
    base, made = base_tensors(plan), items(plan, 2)
    start = perturbed(plan, trainables(plan, base).tensors)
    names = list(start)

    def loss(*tensors: torch.Tensor) -> torch.Tensor:
        model = Model(plan, base, dict(zip(names, tensors, strict=True)))
        logits = model.logits(made.tokens, target_rows(plan.task))
        return functional.cross_entropy(logits.flatten(0, 2), made.targets.flatten())

    tensors = tuple(start[n].clone().requires_grad_() for n in names)
    assert torch.autograd.gradcheck(loss, tensors, fast_mode=True)


@every_family
@every_method
def test_the_claim_about_first_layer_attention_holds(name: str, family: str):
    plan = adaptation(configured(name), family=SMALL_OF_EACH[family])
    base, made = base_tensors(plan), items(plan)
    model = Model(plan, base, perturbed(plan, trainables(plan, base).tensors))
    before, after = Recorder(), Recorder()
    model.base_logits(made.tokens, slice(None), before)
    model.logits(made.tokens, slice(None), after)
    deviation = (before.relative[0] - after.relative[0]).abs().max().item()
    assert plan.method is not None
    if plan.method.first_layer_attention == "can_change":
        assert deviation > 1e-3
    else:
        assert deviation < 1e-12
        if name in ("frozen", "head_only"):
            return  # nothing before the head changes at all
        deeper = (before.relative[1] - after.relative[1]).abs().max().item()
        assert deeper > 1e-4, "the honest statement is: not in one layer, never: not at all"


@every_family
@every_method
def test_a_checkpoint_comes_back_as_it_was(name: str, family: str, tmp_path: Path):
    plan = adaptation(configured(name), family=SMALL_OF_EACH[family])
    trained = perturbed(plan, trainables(plan, base_tensors(plan)).tensors)
    tensors = {n: t[0] for n, t in trained.items()}
    written = write_checkpoint(plan, tensors, seed=0, replicate=0, scratch=tmp_path)
    read = read_tensors(written.path, {n: t.shape for n, t in plan.trained_shapes.items()})
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[n], tensors[n]) for n in tensors)
    assert written.checkpoint.parameters == plan.spec.budget.trainable_parameters


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
    assert torch.equal(Model(plan, base, start).logits(made.tokens, slice(None)), before)
    doubled = Model(plan, base, {"unembed.weight": 2 * start["unembed.weight"]})
    assert torch.allclose(doubled.logits(made.tokens, slice(None)), 2 * before)


@every_family
def test_in_one_layer_a_prefix_row_is_a_virtual_token(family: str):
    single_layer = SMALL_OF_EACH[family].model_copy(update={"layers": 1})
    prefix = adaptation({"name": "prefix_tuning", "length": 3}, family=single_layer)
    prompt = adaptation({"name": "soft_prompt", "length": 3}, family=single_layer)
    base, made = base_tensors(prefix), items(prefix)
    trained = perturbed(prompt, trainables(prompt, base).tensors)
    rows = {"blocks.0.attn.input": trained["embed.prompt"]}
    expected = Model(prompt, base, trained).logits(made.tokens, slice(None))
    found = Model(prefix, base, rows).logits(made.tokens, slice(None))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
