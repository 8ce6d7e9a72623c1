"""The budget solver against the counts of research and paper.

Its message when it cannot solve a budget is checked, too.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptlab.errors import InfeasibleBudget, InvalidSpec
from adaptlab.families.minigpt import MiniGPT
from adaptlab.methods.combine import Combine
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.budget import budget_vector, solve, trainable_parameters

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
        (12_288, "suffix_tuning", {}, {"length": 12}, 12_288),
        # a rank has 4 · (256 + 256) at q and v each; DoRA first takes the 4 · 2 · 256 row lengths
        (12_288, "lora", {"dora": True}, {"rank": 2}, 10_240),
        (12_288, "lora", {"scaling": "rank_stabilised"}, {"rank": 3}, 12_288),
        # q takes 4 · 512 at rank 1, so v can have rank 5
        (12_288, "lora", {"overrides": ({"sites": ("q",), "rank": 1},)}, {"rank": 5}, 12_288),
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


def test_a_network_that_is_dropped_counts_as_trained_and_not_as_stored():
    knobs = {"name": "prefix_tuning", "reparameterisation": {"hidden": 8}}
    solved = solve(METHODS.get("prefix_tuning").model_validate(knobs), PAPER, 20_000)
    vector = budget_vector(solved, PAPER, 20_000)
    # 8 · 256 + 8 into the hidden features, 8 · 4 · 256 + 4 · 256 out of them, 256 for each row
    network = 2_048 + 8 + 8_192 + 1_024
    assert vector.trainable_parameters == network + 34 * 256
    assert 0 <= 20_000 - vector.trainable_parameters < 256
    assert vector.stored_bytes == 4 * 34 * 4 * 256
    assert vector.extra_context_tokens == 34


# PAPER has 1,024 parameters a prefix row and 4,096 a rank of LoRA at q and v.
@pytest.mark.parametrize(
    ("budget", "parts", "shares", "sizes"),
    [
        (12_288, ["prefix_tuning", "lora"], None, (8, 1)),  # 6 and 1.5; what is over makes 2 rows
        (12_288, ["lora", "prefix_tuning"], None, (1, 8)),  # the leftover goes to the later part
        (16_384, ["prefix_tuning", "lora"], None, (8, 2)),
        (16_384, ["prefix_tuning", "lora"], (3, 1), (12, 1)),
        (16_384, ["prefix_tuning", "lora"], (1, 3), (4, 3)),
        (5_120, ["prefix_tuning", "lora"], (99, 1), (1, 1)),  # each keeps its smallest
        (16_384, [{"name": "prefix_tuning", "length": 3}, "lora"], None, (3, 3)),
        (16_384, ["prefix_tuning", {"name": "lora", "rank": 1}], None, (12, 1)),
    ],
)
def test_parts_share_a_budget(
    budget: int, parts: list[object], shares: tuple[float, ...] | None, sizes: tuple[int, int]
):
    method = METHODS.get("combine").model_validate({"parts": parts, "shares": shares})
    solved = solve(method, PAPER, budget).model_dump()
    assert tuple(p.get("length", p.get("rank")) for p in solved["parts"]) == sizes


def test_every_part_of_a_combination_shows_its_counts():
    solved = solve(METHODS.get("combine").model_validate({}), SMALL, 1_000)
    assert budget_vector(solved, SMALL, 1_000).tensors == {
        "prefix_tuning.blocks.0.attn.input": 6 * 96,
        "lora.blocks.0.attn.q.a": 96,
        "lora.blocks.0.attn.q.b": 96,
        "lora.blocks.0.attn.v.a": 96,
        "lora.blocks.0.attn.v.b": 96,
    }


def test_a_combination_below_its_smallest_parts_names_the_nearest():
    with pytest.raises(InfeasibleBudget) as caught:
        solve(METHODS.get("combine").model_validate({}), SMALL, 479)
    assert caught.value.problems[0].nearest == (96 + 384,)


@given(
    parts=st.permutations(["lora", "prefix_tuning", "soft_prompt", "ia3", "suffix_tuning"]),
    count=st.integers(2, 4),
    shares=st.lists(st.floats(0.01, 100), min_size=4, max_size=4),
    budget=st.integers(20_000, 2 * 10**5),
)
def test_a_combination_keeps_to_its_budget_and_no_part_could_grow(
    parts: list[str], count: int, shares: list[float], budget: int
):
    knobs = {"parts": parts[:count], "shares": shares[:count]}
    solved = solve(Combine.model_validate(knobs), PAPER, budget)
    assert isinstance(solved, Combine)
    left = budget - trainable_parameters(solved, PAPER)
    assert left >= 0
    for part in solved.parts:
        if part.size_knob is None:
            continue
        size = getattr(part, part.size_knob)
        larger = trainable_parameters(part.with_size(size + 1), PAPER)
        if size < part.largest_size(PAPER):
            assert larger - trainable_parameters(part, PAPER) > left
