"""The budget solver against the counts of research and paper, and what it says when it cannot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptlab.budget import budget_vector, solve, trainable_parameters
from adaptlab.errors import InfeasibleBudget, InvalidSpec
from adaptlab.families.minigpt import MiniGPT
from adaptlab.method import METHODS
from adaptlab.shapes import ModelShape

PAPER = MiniGPT(layers=4, heads=4, width=256, vocabulary=10, context=29).shape()
SMALL = MiniGPT(layers=1, heads=1, width=96, vocabulary=10, context=19).shape()


# The equal-budget table of Petrov, Torr, Bibi's small net: experiment 4 and its control.
@pytest.mark.parametrize(
    ("budget", "name", "knobs", "expected", "trained"),
    [
        (12_288, "prefix_tuning", {}, {"length": 12}, 12_288),
        (12_288, "prefix_tuning", {"side": "key_value"}, {"length": 6}, 12_288),
        (12_288, "soft_prompt", {}, {"length": 48}, 12_288),
        (12_288, "lora", {"sites": ("q", "v")}, {"rank": 3}, 12_288),
        (12_288, "lora", {"sites": ("o", "mlp")}, {"rank": 1}, 12_288),
        (10_240, "prefix_tuning", {}, {"length": 10}, 10_240),
        (10_240, "prefix_tuning", {"side": "key_value"}, {"length": 5}, 10_240),
        (10_240, "lora", {"sites": ("mlp",)}, {"rank": 1}, 10_240),
        (12_288, "adapter", {}, {"bottleneck": 5}, 11_284),
        (12_288, "bitfit", {}, {}, 11_520),
        (12_288, "layernorm_tuning", {}, {}, 4_608),
        (12_288, "ia3", {}, {}, 6_144),
    ],
)
def test_the_papers_equal_budgets(
    budget: int, name: str, knobs: dict[str, object], expected: dict[str, int], trained: int
):
    method = METHODS.get(name).model_validate({"name": name, **knobs})
    solved = solve(method, PAPER, budget)
    vector = budget_vector(solved, PAPER, budget)
    assert solved.model_dump(include=set(expected)) == expected
    assert (vector.trainable_parameters, vector.gap) == (trained, budget - trained)
    assert sum(vector.tensors.values()) == trained
    assert vector.stored_bytes == 4 * trained


def test_model_sizes_are_those_of_the_published_code():
    # research/paper.md 1.3 counts the transformer without its head, at the paper's block sizes
    for layers, width, heads, context, printed in (
        (1, 96, 1, 20, 114_912),
        (4, 256, 4, 29, 3_169_536),
        (4, 256, 4, 31, 3_170_048),
    ):
        shape = MiniGPT(
            layers=layers, width=width, heads=heads, vocabulary=10, context=context
        ).shape()
        head = shape.tensors["unembed.weight"].size
        assert shape.parameters - head == printed


def test_a_budget_below_the_smallest_size_names_the_nearest():
    with pytest.raises(InfeasibleBudget) as caught:
        solve(METHODS.get("prefix_tuning")(name="prefix_tuning"), SMALL, 50)
    (problem,) = caught.value.problems
    assert problem.pointer == "/budget/trainable_parameters"
    assert problem.nearest == (96,)


def test_a_given_size_is_checked_against_the_budget():
    lora = METHODS.get("lora").model_validate({"name": "lora", "rank": 2})
    assert solve(lora, SMALL, 768) == lora
    with pytest.raises(InfeasibleBudget) as caught:
        solve(lora, SMALL, 767)
    assert caught.value.problems[0].nearest == (768,)


def test_a_method_of_fixed_size_needs_no_budget_but_keeps_to_one():
    full = METHODS.get("full_finetuning")(name="full_finetuning")
    assert trainable_parameters(solve(full, SMALL, None), SMALL) == SMALL.parameters
    with pytest.raises(InfeasibleBudget):
        solve(full, SMALL, SMALL.parameters - 1)


def test_a_free_size_needs_a_budget():
    with pytest.raises(InvalidSpec) as caught:
        solve(METHODS.get("lora")(name="lora"), SMALL, None)
    assert caught.value.problems[0].code == "budget_missing"


def test_a_rank_beyond_the_matrix_is_refused_with_the_largest():
    lora = METHODS.get("lora").model_validate({"name": "lora", "rank": 97})
    with pytest.raises(InvalidSpec) as caught:
        solve(lora, SMALL, None)
    assert caught.value.problems[0].pointer == "/method/rank"
    assert caught.value.problems[0].nearest == (96,)


@given(
    name=st.sampled_from(["lora", "prefix_tuning", "soft_prompt"]),
    budget=st.integers(1, 10**6),
    shape=st.sampled_from([PAPER, SMALL]),
)
def test_the_solution_is_the_largest_that_fits(name: str, budget: int, shape: ModelShape):
    method = METHODS.get(name)(name=name)
    smallest = trainable_parameters(method.with_size(1), shape)
    if budget < smallest:
        with pytest.raises(InfeasibleBudget):
            solve(method, shape, budget)
        return
    solved = solve(method, shape, budget)
    assert solved.size_knob is not None
    size = getattr(solved, solved.size_knob)
    assert trainable_parameters(solved, shape) <= budget
    if size < solved.largest_size(shape):
        assert trainable_parameters(solved.with_size(size + 1), shape) > budget
