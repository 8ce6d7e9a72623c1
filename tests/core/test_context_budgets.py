"""Budgets in context tokens: what they size, and what they cannot."""

from typing import Any

import pytest
from pydantic import ValidationError
from tests.making import a_pretrain_spec, a_study_spec, base_facts

from adaptlab.comparisons.verdict_sentence import comparison_sentence
from adaptlab.errors import InfeasibleBudget, InvalidSpec
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.method import METHODS, Method
from adaptlab.specs.budget import budget_vector, solve
from adaptlab.specs.resolve import resolve
from adaptlab.specs.sized_method import budget_limit
from adaptlab.specs.spec import AdaptSpec, BudgetSpec
from adaptlab.studies.study import stored_axis
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import StudyPlan

SHAPE = MiniGPT(layers=2, heads=2, width=32, vocabulary=10, context=24).shape()
EIGHT = {"context_tokens": 8}


def a_method(name: str, **knobs: Any) -> Method:
    return METHODS.get(name).model_validate({"name": name, **knobs})


def planned(**changes: Any) -> StudyPlan:
    base = base_facts()
    return expand(a_study_spec(**{"base_models": [base.name], **changes}), (base,), 500)


def problem(**changes: Any) -> tuple[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        planned(**changes)
    (found,) = caught.value.problems
    return found.pointer, found.code


@pytest.mark.parametrize(
    ("name", "knobs", "trained"),
    [
        ("prefix_tuning", {}, 8 * 2 * 32),
        ("prefix_tuning", {"side": "key_value"}, 8 * 2 * 2 * 32),
        ("soft_prompt", {}, 8 * 32),
        ("suffix_tuning", {}, 8 * 2 * 32),
        ("pez", {}, 8 * 32),
        ("autoprompt", {}, 8 * 32),
        ("random_prompt", {}, 8 * 32),
    ],
)
def test_methods_take_as_many_positions_as_the_budget_has(
    name: str, knobs: dict[str, Any], trained: int
):
    solved = solve(a_method(name, **knobs), SHAPE, 8, "context_tokens")
    vector = budget_vector(solved, SHAPE, 8, "context_tokens")
    assert (vector.extra_context_tokens, vector.gap) == (8, 0)
    assert vector.trainable_parameters == trained
    assert (vector.axis, vector.requested) == ("context_tokens", 8)


def test_parts_share_the_positions_and_keep_their_fixed_sizes():
    parts = ["prefix_tuning", "soft_prompt", {"name": "lora", "rank": 3}]
    solved = solve(a_method("combine", parts=parts), SHAPE, 9, "context_tokens")
    prefix, prompt, lora = solved.model_dump()["parts"]
    assert (prefix["length"], prompt["length"], lora["rank"]) == (5, 4, 3)


@pytest.mark.parametrize(
    ("name", "knobs", "advice"),
    [
        ("lora", {}, "Set its rank"),
        ("adapter", {}, "Set its bottleneck"),
        ("combine", {}, "Set the sizes of its parts"),  # a prefix, and LoRA of any rank
    ],
)
def test_a_method_that_takes_no_positions_needs_a_size(
    name: str, knobs: dict[str, Any], advice: str
):
    with pytest.raises(InvalidSpec) as caught:
        solve(a_method(name, **knobs), SHAPE, 8, "context_tokens")
    (found,) = caught.value.problems
    assert (found.pointer, found.code) == ("/budget/context_tokens", "budget_of_other_axis")
    assert advice in found.detail


def test_a_longer_prompt_than_the_budget_is_refused_with_its_length():
    with pytest.raises(InfeasibleBudget) as caught:
        solve(a_method("soft_prompt", length=9), SHAPE, 8, "context_tokens")
    (found,) = caught.value.problems
    assert (found.pointer, found.nearest) == ("/budget/context_tokens", (9,))
    assert "9 context tokens" in found.detail


def test_a_budget_limits_one_thing():
    both = BudgetSpec(trainable_parameters=96, context_tokens=8)
    with pytest.raises(InvalidSpec, match="only one of"):
        budget_limit(both, SHAPE)
    assert budget_limit(BudgetSpec(context_tokens=8), SHAPE) == 8
    with pytest.raises(ValidationError):
        BudgetSpec(context_tokens=0)


def test_budgets_of_parameters_are_stored_as_before():
    solved = solve(a_method("lora"), SHAPE, 1000)
    assert "axis" not in budget_vector(solved, SHAPE, 1000).model_dump(mode="json")


def test_a_study_matches_methods_by_the_positions_that_they_take():
    methods = ["prefix_tuning", "soft_prompt", "pez", {"name": "lora", "rank": 1}]
    plan = planned(methods=methods, budgets=[EIGHT, {"context_tokens": 16}])
    cells = {(cell.method, cell.budget): cell for cell in plan.cells}
    assert plan.axis == "context_tokens"
    assert {cell.gap for (name, _), cell in cells.items() if not name.startswith("lora")} == {0}
    lora = [cell for (name, _), cell in cells.items() if name.startswith("lora")]
    assert [(cell.budget, cell.gap, cell.over_budget) for cell in lora] == [
        (8, 8, False),
        (16, 16, False),
    ]
    assert len({cell.digest for cell in lora}) == 1  # one job at both budgets
    assert not plan.skipped


def test_the_job_of_a_cell_asks_for_its_positions():
    (job,) = planned(methods=["soft_prompt"], budgets=[EIGHT]).jobs
    assert job.spec.budget.context_tokens == 8
    assert (job.resolved.budget.axis, job.resolved.budget.extra_context_tokens) == (
        "context_tokens",
        8,
    )


def test_of_all_methods_those_without_positions_are_left_out():
    plan = planned(methods="all", budgets=[EIGHT])
    names = {cell.method for cell in plan.cells}
    assert {"prefix_tuning", "pez", "full_finetuning", "frozen", "bitfit"} <= names
    left_out = {cell.method: cell.problems[0].code for cell in plan.skipped}
    assert left_out["lora"] == left_out["combine"] == "budget_of_other_axis"


def test_a_method_by_name_without_a_size_is_a_mistake():
    found = problem(methods=["prefix_tuning", "lora"], budgets=[EIGHT])
    assert found == ("/methods/1", "budget_of_other_axis")


def test_budgets_of_one_study_limit_the_same():
    assert problem(methods=["soft_prompt"], budgets=[EIGHT, 64]) == ("/budgets/1", "other_axis")


def test_a_tolerance_is_about_methods_that_take_positions():
    lora = {"name": "lora", "rank": 1}
    plan = planned(methods=["soft_prompt", lora], budgets=[EIGHT], budget_tolerance=0.1)
    assert len(plan.cells) == 2
    short = {"name": "soft_prompt", "length": 4}
    found = problem(methods=[short, "prefix_tuning"], budgets=[EIGHT], budget_tolerance=0.1)
    assert found == ("/budgets/0", "budget_not_met")


def test_a_stored_spec_tells_its_axis_without_being_read():
    assert stored_axis({"budgets": [EIGHT], "methods": ["gone"]}) == "context_tokens"
    assert stored_axis({"budgets": [{"fraction_of_base": 0.1}]}) == "trainable_parameters"
    assert stored_axis({"budgets": [64]}) == stored_axis({}) == "trainable_parameters"


def test_the_sentence_names_the_unit():
    said = comparison_sentence([(8, "A works."), (16, "B works.")], "context_tokens")
    assert said == (
        "At a budget of 8 context tokens: A works. At a budget of 16 context tokens: B works."
    )


EPISODES = {"name": "episodes", "kinds": 4, "words": 16, "phrase": 2}
QUERY = {**EPISODES, "labels": "fixed", "shots": 0}


def test_demonstrations_are_listed_where_they_fit():
    spec = a_pretrain_spec(
        name="reader", task={**EPISODES, "shots": 2}, family={"name": "minigpt", "width": 16}
    )
    base = base_facts(spec)
    methods = ["soft_prompt", {"name": "in_context", "demonstrations": 4}]
    study = a_study_spec(
        base_models=["reader"],
        tasks=[QUERY],
        methods=methods,
        budgets=[EIGHT, {"context_tokens": 24}],
    )
    plan = expand(study, (base,), 500)
    cells = {(cell.method, cell.budget): cell for cell in plan.cells}
    label = "in_context(demonstrations=4)"
    # four of five tokens: two words, separator, label and line break
    assert cells[label, 24].gap == 4
    (left_out,) = plan.skipped
    assert (left_out.method, left_out.budget, left_out.nearest) == (label, 8, (20,))
    assert left_out.problems[0].pointer == "/budgets/0"


def test_a_job_of_more_demonstrations_than_its_budget_is_refused():
    spec = a_pretrain_spec(
        name="reader", task={**EPISODES, "shots": 2}, family={"name": "minigpt", "width": 16}
    )
    document = {
        "base_model": "reader",
        "task": QUERY,
        "method": {"name": "in_context", "demonstrations": 4},
    }
    with pytest.raises(InfeasibleBudget) as caught:
        resolve(AdaptSpec.model_validate({**document, "budget": EIGHT}), base_facts(spec))
    assert caught.value.problems[0].nearest == (20,)
    fits = AdaptSpec.model_validate({**document, "budget": {"context_tokens": 20}})
    budget = resolve(fits, base_facts(spec)).budget
    assert (budget.axis, budget.gap, budget.extra_context_tokens) == ("context_tokens", 0, 20)


FOLLOWING = {"name": "in_context", "demonstrations": "auto"}


def test_the_number_of_demonstrations_follows_the_budget():
    spec = a_pretrain_spec(
        name="reader", task={**EPISODES, "shots": 2}, family={"name": "minigpt", "width": 16}
    )
    budgets = [{"context_tokens": tokens} for tokens in (4, 9, 19, 500)]
    study = a_study_spec(
        base_models=["reader"], tasks=[QUERY], methods=["soft_prompt", FOLLOWING], budgets=budgets
    )
    plan = expand(study, (base_facts(spec),), 500)
    label = "in_context(demonstrations=auto)"
    cells = {cell.budget: cell for cell in plan.cells if cell.method == label}
    # of five tokens each, and before a query of three in a context of 23
    assert {tokens: cell.demonstrations for tokens, cell in cells.items()} == {9: 1, 19: 3, 500: 4}
    assert [cells[tokens].gap for tokens in (9, 19, 500)] == [4, 4, 480]
    (left_out,) = plan.skipped
    assert (left_out.method, left_out.budget, left_out.nearest) == (label, 4, (5,))
    assert {cell.demonstrations for cell in plan.cells if cell.method != label} == {None}


def test_demonstrations_that_train_nothing_cannot_follow_parameters():
    spec = a_pretrain_spec(
        name="reader", task={**EPISODES, "shots": 2}, family={"name": "minigpt", "width": 16}
    )
    document = {"base_model": "reader", "task": QUERY, "method": FOLLOWING, "budget": 500}
    with pytest.raises(InvalidSpec, match="give a budget in context tokens") as caught:
        resolve(AdaptSpec.model_validate(document), base_facts(spec))
    assert caught.value.problems[0].code == "budget_of_other_axis"
    scaled = {**document, "method": {**FOLLOWING, "name": "anchor_reweighting"}, "budget": 27}
    resolved = resolve(AdaptSpec.model_validate(scaled), base_facts(spec))
    shape = base_facts(spec).family.shape()
    assert resolved.method.demonstrated() == min(4, 27 // (shape.layers * shape.heads))
    assert resolved.budget.trainable_parameters <= 27
