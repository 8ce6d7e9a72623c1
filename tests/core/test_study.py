"""Studies on paper: their cells and refusals.

Tests cover which cells there are, what is in them, and what is refused.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.making import a_pretrain_spec, a_study_spec, base_facts

from adaptlab.errors import InfeasibleBudget, InvalidSpec
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.sizing import BudgetAxis
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec
from adaptlab.studies.study import (
    StudyChanges,
    StudyExtension,
    StudyMethod,
    StudySpec,
    base_names,
    changed,
    extended,
)
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import Cell, PlannedJob, StudyPlan
from adaptlab.validation import validation_problems

TASK = {"name": "sort_descending", "length": 3, "alphabet": 4}


def planned(*bases: BaseModelFacts, most_jobs: int = 500, **changes: Any) -> StudyPlan:
    bases = bases or (base_facts(),)
    document = {"base_models": [base.name for base in bases]} | changes
    return expand(a_study_spec(**document), bases, most_jobs)


def problem(*bases: BaseModelFacts, most_jobs: int = 500, **changes: Any) -> tuple[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        planned(*bases, most_jobs=most_jobs, **changes)
    (found,) = caught.value.problems
    return found.pointer, found.code


def job_of(plan: StudyPlan, method: str, budget: int) -> PlannedJob:
    (cell,) = [c for c in plan.cells if (c.method, c.budget) == (method, budget)]
    (job,) = [job for job in plan.jobs if job.digest == cell.digest]
    return job


def other_base(name: str = "other", **family: Any) -> BaseModelFacts:
    return base_facts(a_pretrain_spec(name=name, family={"name": "minigpt", **family}))


def test_every_method_gets_the_same_effort_and_every_seed():
    plan = planned(methods=["prefix_tuning", "lora", "adapter"], budgets=[64], tuning={"trials": 5})
    efforts = {
        (len(job.resolved.training.trials), job.resolved.training.steps, job.resolved.seeds)
        for job in plan.jobs
    }
    assert efforts == {(5, 4, (0, 1))}
    # each over its own range of rates
    assert len({job.resolved.training.learning_rates for job in plan.jobs}) > 1
    assert {(job.replicates, job.passes) for job in plan.jobs} == {(10, 1)}


def test_a_base_that_is_left_alone_has_nothing_to_tune():
    frozen = job_of(planned(tuning={"trials": 5, "validation_samples": 77}), "frozen", 32)
    assert len(frozen.resolved.training.trials) == 1
    assert frozen.resolved.validation_samples == 77


def test_a_job_is_what_its_own_spec_resolves_to():
    plan = planned(methods="all", budgets=[96, 1500], labels={"paper": "table-1"})
    assert len(plan.jobs) > len(METHODS.names())
    for job in plan.jobs:
        document = json.loads(job.spec.model_dump_json(exclude_unset=True))
        again = AdaptSpec.model_validate(document)
        resolved = resolve(again, base_facts())  # which solves the budget for itself
        assert resolved == job.resolved
        assert spec_digest(resolved) == job.digest
        assert document["labels"] == {"paper": "table-1"}
        assert "capture" not in document  # what was not asked for stays open


def test_a_budget_is_solved_once_on_a_base_however_many_tasks_there_are(
    monkeypatch: pytest.MonkeyPatch,
):
    solved: list[int] = []
    within = Method.within

    def counted(self: Method, shape: ModelShape, budget: int, axis: BudgetAxis) -> Method:
        solved.append(budget)
        return within(self, shape, budget, axis)

    monkeypatch.setattr(METHODS.get("lora"), "within", counted)
    tasks = [TASK | {"name": name} for name in ("sort_descending", "copy", "reverse")]
    plan = planned(methods=["lora"], budgets=[64, 128], tasks=tasks)
    assert len(plan.jobs) == 6
    assert solved == [64, 128]


def test_references_stand_at_every_budget_by_one_job():
    plan = planned(budgets=[32, 64, 2000])
    full = [cell for cell in plan.cells if cell.method == "full_finetuning"]
    # 1,024 parameters: 6 · 8 embeddings, 5 · 8 positions, 872 in the block, 16 + 48 at the end
    assert [(c.budget, c.trainable_parameters, c.gap, c.over_budget) for c in full] == [
        (32, 1024, -992, True),
        (64, 1024, -960, True),
        (2000, 1024, 976, False),
    ]
    assert {c.role for c in full} == {"reference"}
    assert len({c.digest for c in full}) == 1
    assert len(plan.jobs) == 2 + 2 * 3


def test_a_method_of_fixed_size_stands_where_it_fits():
    plan = planned(methods=["prefix_tuning", "ia3", {"name": "lora", "rank": 2}], budgets=[16, 64])
    assert [(c.method, c.budget) for c in plan.cells] == [
        ("prefix_tuning", 16), ("prefix_tuning", 64), ("ia3", 64), ("lora(rank=2)", 64),
    ]  # fmt: skip
    # IA3 scales 8 keys, 8 values and 32 hidden features; rank 2 has 2 · (8 + 8) at q and at v.
    assert [(s.method, s.budget, s.nearest) for s in plan.skipped] == [
        ("ia3", 16, (48,)), ("lora(rank=2)", 16, (64,)),
    ]  # fmt: skip


def test_all_methods_are_those_that_the_base_model_has_sites_for():
    plan = planned(methods="all", budgets=[4096])
    on_any_task = {name for name in METHODS.names() if not METHODS.get(name).moves_content}
    assert {cell.method for cell in plan.cells} == on_any_task
    blind = other_base(width=8, attention="none")
    plan = planned(blind, methods="all", budgets=[4096])
    missing = {cell.method for cell in plan.skipped}
    assert {"prefix_tuning", "soft_prompt", "attention_bias"} <= missing
    assert {cell.budget for cell in plan.skipped} == {None}
    assert "adapter" in {cell.method for cell in plan.cells}


def test_a_method_by_name_that_no_base_model_can_have_is_a_mistake():
    blind = other_base(width=8, attention="none")
    with pytest.raises(InvalidSpec) as caught:
        planned(blind, methods=["head_only", "prefix_tuning"])
    assert {p.pointer for p in caught.value.problems} == {"/methods/1/name"}
    # Where one of several can, the others go without it.
    plan = planned(base_facts(), blind, methods=["head_only", "prefix_tuning"], budgets=[64])
    assert [(s.base_model, s.method, s.budget) for s in plan.skipped] == [
        ("other", "prefix_tuning", None)
    ]
    assert [(c.base_model, c.method) for c in plan.cells] == [
        ("tiny-sort", "head_only"), ("tiny-sort", "prefix_tuning"), ("other", "head_only"),
    ]  # fmt: skip


def test_a_budget_that_only_references_meet_is_refused_with_the_nearest():
    with pytest.raises(InfeasibleBudget) as caught:
        planned(methods=["frozen", "lora", "ia3"], budgets=[64, 20])
    (found,) = caught.value.problems
    assert (found.pointer, found.nearest) == ("/budgets/1", (32, 48))
    # Somebody who asks for nothing else gets the references.
    assert len(planned(methods=["frozen", "full_finetuning"], budgets=[20]).cells) == 2


@pytest.mark.parametrize(("budget", "nearest"), [(60, (64, 32)), (90, (96, 64))])
def test_a_budget_that_a_method_leaves_unused_is_refused_with_the_nearest(
    budget: int, nearest: tuple[int, ...]
):
    """LoRA's sizes are multiples of 32 = 4 * 8, a prefix's of 8.

    64 of 90 are 29 % too few.
    """
    document: dict[str, Any] = {
        "methods": ["frozen", "lora", "prefix_tuning"],
        "budgets": [budget],
    }
    assert planned(**document).cells
    with pytest.raises(InvalidSpec) as caught:
        planned(**document, budget_tolerance=0.05)
    found = caught.value.problems[0]
    assert (found.pointer, found.code) == ("/budgets/0", "budget_not_met")
    assert found.nearest == nearest
    assert "The tolerance is 5.0 %" in found.detail
    for size in nearest:
        fitting = document | {"budgets": [size], "budget_tolerance": 0.05}
        assert planned(**fitting).cells


def test_a_tolerance_accepts_what_is_left_within_it():
    document = {"methods": ["lora"], "budgets": [100]}
    assert planned(**document, budget_tolerance=0.05).cells  # 96 are 4 % less
    assert problem(**document, budget_tolerance=0.03)[1] == "budget_not_met"


def test_a_method_that_trains_nothing_is_within_every_tolerance():
    query = {"name": "episodes", "kinds": 2, "shots": 0, "labels": "fixed"}
    wide = other_base(vocabulary=36, context=23)
    document = {"methods": ["prefix_tuning", "in_context"], "tasks": [query], "budgets": [96]}
    plan = planned(wide, **document, budget_tolerance=0.05)
    assert [(cell.method, cell.trainable_parameters) for cell in plan.cells] == [
        ("prefix_tuning", 96), ("in_context", 0),
    ]  # fmt: skip


def test_a_share_of_the_base_is_another_number_on_another_base():
    wide = other_base(width=16)
    plan = planned(base_facts(), wide, budgets=[{"fraction_of_base": 0.1}], methods=["lora"])
    limits = {cell.base_model: cell.budget for cell in plan.cells}
    parameters = {job.resolved.base_model: job.resolved.budget for job in plan.jobs}
    assert limits["tiny-sort"] == 102
    assert limits["other"] > 300
    assert all(parameters[name].trainable_parameters <= limit for name, limit in limits.items())


def test_labels_tell_methods_of_one_name_apart():
    methods = [
        "lora",
        {"name": "lora", "sites": ["mlp"]},
        {"name": "lora", "alpha": 8, "label": "hot"},
    ]
    plan = planned(methods=methods, budgets=[128])
    assert [cell.method for cell in plan.cells] == ["lora", "lora(sites=[mlp])", "hot"]
    assert "label" not in job_of(plan, "hot", 128).resolved.model_dump_json()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"methods": ["lora", "lora"]}, ("/methods/1", "method_twice")),
        ({"tasks": [TASK, TASK | {"few_distinct": True}]}, ("/tasks/1", "task_twice")),
        ({"seeds": [1, 1]}, ("/seeds/1", "seed_twice")),
        ({"budgets": [64, {"fraction_of_base": 0.0625}]}, ("/budgets/1", "budget_twice")),
        ({"most_jobs": 5}, ("", "too_many_jobs")),
        ({"evaluation": {"tasks": ["sort"]}}, ("/evaluation/tasks/0/name", "unknown_task")),
    ],
)
def test_what_is_there_twice_or_too_often_is_refused(
    changes: dict[str, Any], expected: tuple[str, str]
):
    assert problem(**changes) == expected


def test_the_limit_of_jobs_counts_a_method_of_fixed_size_once():
    assert len(planned(most_jobs=6).jobs) == 6  # two references, two methods at two budgets
    assert problem(most_jobs=5) == ("", "too_many_jobs")


def test_one_base_model_under_two_names_is_one():
    facts = base_facts()
    renamed = facts.model_copy(update={"name": "again"})
    assert problem(facts, renamed) == ("/base_models/1", "base_model_twice")
    with pytest.raises(InvalidSpec):
        base_names(a_study_spec(base_models=["a", "b", "a"]))


@given(seeds=st.lists(st.integers(0, 50), min_size=2, max_size=12, unique=True), cut=st.data())
@settings(max_examples=25, deadline=None)
def test_a_seed_starts_from_the_same_replicate_in_whichever_job_it_is(
    seeds: list[int], cut: st.DataObject
):
    (job,) = planned(methods=["lora"], budgets=[64], seeds=tuple(seeds)).jobs
    some = cut.draw(st.lists(st.sampled_from(seeds), min_size=1, unique=True))
    part = job.with_seeds(some)
    place = {seed: index % 2 for index, seed in enumerate(seeds)}  # the base has two replicates
    assert part.resolved.base_replicates == tuple(place[seed] for seed in some)
    assert part.seedless == job.seedless
    assert spec_digest(resolve(part.spec, base_facts())) == part.digest


def test_replicates_of_the_base_are_given_one_a_seed_and_exist():
    def fault(**changes: Any) -> tuple[str, str]:
        spec = AdaptSpec.model_validate(
            {"base_model": "tiny-sort", "task": TASK, "method": "frozen", **changes}
        )
        with pytest.raises(InvalidSpec) as caught:
            resolve(spec, base_facts())
        return caught.value.problems[0].pointer, caught.value.problems[0].code

    assert fault(seeds=3, base_replicates=[0]) == ("/base_replicates", "not_one_a_seed")
    assert fault(seeds=2, base_replicates=[0, 2]) == ("/base_replicates/1", "no_such_replicate")


def test_a_result_does_not_depend_on_the_budget_under_which_it_came_out():
    plan = planned(methods=["lora"], budgets=[40, 50, 64])
    assert len({cell.digest for cell in plan.cells}) == 2  # rank 1, rank 1, rank 2
    assert {job.resolved.budget.requested for job in plan.jobs} == {40, 64}


@pytest.mark.parametrize(
    ("before", "added", "after"),
    [
        (3, 5, 5),
        (3, 3, 3),
        ([7, 9], 4, (7, 9, 0, 1)),
        (2, [1, 5], (0, 1, 5)),
        ([7], [9, 7], (7, 9)),
        ("auto", 4, 4),
    ],
)
def test_seeds_grow_and_keep_their_places(before: Any, added: Any, after: Any):
    spec = a_study_spec(seeds=tuple(before) if isinstance(before, list) else before)
    extension = StudyExtension.model_validate({"seeds": added})
    assert extended(spec, extension).seeds == after
    assert extended(extended(spec, extension), extension).seeds == after


def test_an_extension_that_is_there_already_changes_nothing():
    spec = a_study_spec()
    same = StudyExtension(
        base_models=spec.base_models, tasks=spec.tasks, budgets=spec.budgets, seeds=2
    )
    assert extended(spec, same) == spec
    with pytest.raises(InvalidSpec):
        extended(a_study_spec(methods="all"), StudyExtension.model_validate({"methods": ["lora"]}))
    too_many = StudyExtension.model_validate({"seeds": tuple(range(100, 163))})
    with pytest.raises(InvalidSpec) as caught:
        extended(spec, too_many)
    assert caught.value.problems[0].pointer == "/seeds"


def test_a_clone_keeps_what_is_not_given():
    spec = a_study_spec(labels={"paper": "table-1"})
    clone = changed(spec, StudyChanges.model_validate({"name": "other", "methods": "all"}))
    assert clone == spec.model_copy(update={"name": "other", "methods": "all"})
    assert clone.model_fields_set == spec.model_fields_set


def test_a_method_of_another_package_needs_no_edit_here():
    """A cell follows from what its method declares.

    Nothing asks which method it is.
    """
    plan = planned(methods="all", budgets=[32, 4096])
    for cell in plan.cells:
        declared = METHODS.get(cell.method)
        is_reference = declared.is_reference
        assert (cell.role == "reference") == is_reference
        assert is_reference or not cell.over_budget
        assert cell.gap == cell.budget - cell.trainable_parameters


def test_cells_are_in_the_order_of_the_spec():
    plan = planned(
        base_facts(),
        other_base(width=16),
        tasks=[TASK, TASK | {"name": "sort_ascending"}],
        methods=["lora", "prefix_tuning"],
    )

    def place(cell: Cell) -> tuple[str, str, int, str]:
        return cell.base_model, cell.task, cell.budget, cell.method

    assert [place(cell) for cell in plan.cells] == [
        (base, f"{task}(length=3, alphabet=4)", budget, method)
        for base in ("tiny-sort", "other")
        for task in ("sort_descending", "sort_ascending")
        for budget in (32, 64)
        for method in ("lora", "prefix_tuning")
        if (base, budget, method) != ("other", 32, "lora")  # a rank there is 64
    ]


def test_a_spec_is_short_where_it_can_be():
    spec = StudySpec.model_validate(
        {"name": "s", "base_models": ["b"], "tasks": ["add"], "methods": ["lora"], "budgets": [96]}
    )
    assert spec.tasks[0].name == "add"
    assert spec.budgets[0].trainable_parameters == 96


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"budgets": [0]}, "/budgets/0"),
        ({"base_models": ["No"]}, "/base_models/0"),
        ({"methods": [{"name": "lora", "label": ""}]}, "/methods/0/label"),
    ],
)
def test_a_list_of_one_faulty_entry_is_not_called_empty(given: dict[str, Any], pointer: str):
    document = a_study_spec().model_dump(mode="json") | given
    with pytest.raises(ValidationError) as caught:
        StudySpec.model_validate_json(json.dumps(document))
    details = {p.pointer: p.detail for p in validation_problems(caught.value.errors(), document)}
    assert pointer in details
    assert not [text for text in details.values() if "at least 1 item" in text]


@pytest.mark.parametrize("label", ["\x1b[2J", "a\nb", "\u202eab"])
def test_a_label_is_text_that_a_terminal_does_not_obey(label: str):
    with pytest.raises(ValidationError, match="string_pattern_mismatch"):
        StudyMethod.model_validate({"name": "lora", "label": label})


@pytest.mark.parametrize("label", ['größer, 2 × "r"', "=1+1", "<b>"])
def test_any_other_label_is_kept_as_it_is(label: str):
    assert StudyMethod.model_validate({"name": "lora", "label": label}).label == label
