"""Methods of a study with training, tasks or base models of their own.

They are trained otherwise, or only on some of the study's tasks and base models.
"""

import json
from typing import Any

import pytest
from tests.making import a_pretrain_spec, a_study_spec, base_facts

from adaptlab.errors import InfeasibleBudget, InvalidSpec
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec
from adaptlab.studies.study import StudyChanges, changed
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import PlannedJob, StudyPlan

DOWN = {"name": "sort_descending", "length": 3, "alphabet": 4}
UP = DOWN | {"name": "sort_ascending"}


def planned(*bases: BaseModelFacts, **changes: Any) -> StudyPlan:
    bases = bases or (base_facts(),)
    document = {"base_models": [base.name for base in bases]} | changes
    return expand(a_study_spec(**document), bases, 500)


def problem(*bases: BaseModelFacts, **changes: Any) -> tuple[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        planned(*bases, **changes)
    (found,) = caught.value.problems
    return found.pointer, found.code


def jobs_of(plan: StudyPlan) -> dict[str, PlannedJob]:
    jobs = {job.digest: job for job in plan.jobs}
    return {cell.method: jobs[cell.digest] for cell in plan.cells}


def other_base(name: str = "other") -> BaseModelFacts:
    return base_facts(a_pretrain_spec(name=name, family={"name": "minigpt", "width": 16}))


def test_what_a_method_is_given_replaces_the_studys_and_nothing_else():
    longer = {"name": "lora", "training": {"steps": 9}, "tuning": {"learning_rates": [0.01, 0.02]}}
    plan = planned(methods=["prefix_tuning", longer], budgets=[64], training={"batch_size": 7})
    jobs = jobs_of(plan)
    assert jobs["prefix_tuning"].resolved.training.steps == 2000
    assert jobs["lora"].resolved.training.steps == 9
    assert {job.resolved.training.batch_size for job in jobs.values()} == {7}
    assert jobs["lora"].resolved.training.learning_rates == (0.01, 0.02)
    document = json.loads(jobs["lora"].spec.model_dump_json(exclude_unset=True))
    assert document["training"] == {"batch_size": 7, "steps": 9}
    assert document["method"] == {"name": "lora"}
    again = AdaptSpec.model_validate(document)
    assert spec_digest(resolve(again, base_facts())) == jobs["lora"].digest


def test_the_same_method_may_stand_beside_itself_with_other_training():
    methods = ["lora", {"name": "lora", "label": "longer", "training": {"steps": 9}}]
    assert {job.resolved.training.steps for job in planned(methods=methods).jobs} == {4, 9}
    alike = ["lora", {"name": "lora", "label": "again", "training": {"steps": 4}}]
    assert problem(methods=alike) == ("/methods/1", "method_twice")


def test_a_fault_in_what_a_method_is_given_is_pointed_at_there():
    faulty = {"name": "lora", "tuning": {"trials": 3, "learning_rates": [0.1, 0.2]}}
    pointer, _ = problem(methods=[faulty], budgets=[64])
    assert pointer.startswith("/methods/0/tuning/")
    pointer, _ = problem(
        methods=["lora"], budgets=[64], tuning={"trials": 3, "learning_rates": [0.1, 0.2]}
    )
    assert pointer.startswith("/tuning/")


def test_a_method_runs_only_on_its_tasks_and_base_models():
    methods = ["lora", {"name": "prefix_tuning", "tasks": [UP], "base_models": ["other"]}]
    plan = planned(base_facts(), other_base(), tasks=[DOWN, UP], methods=methods, budgets=[64])
    places = {(c.base_model, c.task.split("(")[0]) for c in plan.cells if c.method != "lora"}
    assert places == {("other", "sort_ascending")}
    assert len([cell for cell in plan.cells if cell.method == "lora"]) == 4


def test_one_method_on_two_tasks_may_have_two_labels():
    methods = [
        {"name": "lora", "tasks": [DOWN], "label": "down"},
        {"name": "lora", "tasks": [UP], "label": "up", "training": {"steps": 9}},
    ]
    plan = planned(tasks=[DOWN, UP], methods=methods, budgets=[64])
    assert [(cell.task.split("(")[0], cell.method) for cell in plan.cells] == [
        ("sort_descending", "down"), ("sort_ascending", "up"),
    ]  # fmt: skip


def test_what_the_study_does_not_have_is_refused_with_what_is_near():
    with pytest.raises(InvalidSpec) as caught:
        planned(methods=[{"name": "lora", "base_models": ["tiny-sorts"]}])
    (found,) = caught.value.problems
    assert (found.pointer, found.code) == ("/methods/0/base_models/0", "not_a_base_of_the_study")
    assert (found.allowed, found.nearest) == (("tiny-sort",), ("tiny-sort",))
    with pytest.raises(InvalidSpec) as caught:
        planned(methods=[{"name": "lora", "tasks": [DOWN, UP]}])
    (found,) = caught.value.problems
    assert (found.pointer, found.code) == ("/methods/0/tasks/1", "not_a_task_of_the_study")
    assert found.nearest == ("sort_descending(length=3, alphabet=4)",)


def test_a_budget_may_be_met_on_some_of_the_base_models_where_methods_choose_theirs():
    small = {"name": "lora", "rank": 1, "label": "small", "base_models": ["tiny-sort"]}
    large = {"name": "lora", "rank": 1, "label": "large", "base_models": ["other"]}
    plan = planned(base_facts(), other_base(), methods=[small, large], budgets=[32, 64])
    # A rank at q and v of width 16 has 64 parameters, which is over the smaller budget.
    assert [(c.base_model, c.budget) for c in plan.cells] == [
        ("tiny-sort", 32), ("tiny-sort", 64), ("other", 64),
    ]  # fmt: skip
    with pytest.raises(InfeasibleBudget) as caught:
        planned(base_facts(), other_base(), methods=[small, large], budgets=[16, 64])
    assert {fault.pointer for fault in caught.value.problems} == {"/budgets/0"}


def test_a_clone_keeps_what_methods_are_given():
    spec = a_study_spec(methods=[{"name": "lora", "training": {"steps": 9}, "tasks": [DOWN]}])
    clone = changed(spec, StudyChanges(name="other"))
    assert clone.methods == spec.methods
    document = json.loads(clone.model_dump_json(exclude_unset=True))
    assert document["methods"] == [{"name": "lora", "training": {"steps": 9}, "tasks": [DOWN]}]
