"""Theory checks in studies on paper: measurements and refusals.

Tests cover what each check measures, and what is refused.
"""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from tests.making import a_pretrain_spec, a_study_spec, base_facts

from adaptlab.errors import InvalidSpec
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.studies.study import StudyChanges, StudyExtension, StudySpec, changed, extended
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import PlannedCheck, StudyPlan
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory_checks.saliency import Saliency
from adaptlab.validation import validation_problems

EQUATION_6 = {"name": "relative_attention", "of": "prefix_tuning"}


def planned(*bases: BaseModelFacts, most_jobs: int = 500, **changes: Any) -> StudyPlan:
    bases = bases or (base_facts(),)
    document = {"base_models": [base.name for base in bases]} | changes
    return expand(a_study_spec(**document), bases, most_jobs)


def alone(*bases: BaseModelFacts, **members: Any) -> StudyPlan:
    document = {"name": "theory", "base_models": [base.name for base in bases]} | members
    return expand(StudySpec.model_validate(document), bases, 500)


def problem(*bases: BaseModelFacts, most_jobs: int = 500, **changes: Any) -> tuple[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        planned(*bases, most_jobs=most_jobs, **changes)
    (found,) = caught.value.problems
    return found.pointer, found.code


def measured(check: PlannedCheck) -> tuple[tuple[str, int], ...]:
    return tuple((cell.method, cell.budget) for cell in check.cells)


def other_base(name: str = "other", **family: Any) -> BaseModelFacts:
    return base_facts(a_pretrain_spec(name=name, family={"name": "minigpt", "width": 16, **family}))


def test_a_study_may_be_theory_checks_alone():
    plan = alone(checks=["theorems", {"name": "rotation", "dimensions": 4}], labels={"a": "b"})
    assert [(c.label, c.base, c.cells) for c in plan.checks] == [
        ("theorems", None, ()), ("rotation(dimensions=4)", None, ()),
    ]  # fmt: skip
    assert (plan.jobs, plan.cells, plan.base_models) == ((), (), ())
    job = json.loads(plan.checks[1].spec.model_dump_json(exclude_unset=True))
    assert job == {
        "kind": "theory", "checks": [{"name": "rotation", "dimensions": 4}], "labels": {"a": "b"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("members", "faults"),
    [
        ({}, {"/base_models", "/tasks", "/methods", "/budgets"}),
        ({"base_models": ["tiny-sort"], "checks": []}, {"/tasks", "/methods", "/budgets"}),
        ({"checks": ["theorems"], "tasks": ["copy"]}, {"/base_models", "/methods", "/budgets"}),
        ({"checks": ["theorems"], "methods": "all"}, {"/base_models", "/tasks", "/budgets"}),
    ],
)  # fmt: skip
def test_any_other_study_has_all_of_what_it_compares(members: Any, faults: set[str]):
    document = {"name": "theory"} | members
    with pytest.raises(ValidationError) as caught:
        StudySpec.model_validate(document)
    found = validation_problems(caught.value.errors(), document)
    assert {(p.pointer, p.code) for p in found} == {(place, "missing") for place in faults}


def test_checks_of_base_models_measure_each_or_those_named():
    both = alone(base_facts(), other_base(), checks=["identities"])
    assert [(c.base and c.base.name) for c in both.checks] == ["tiny-sort", "other"]
    one = alone(
        base_facts(), other_base(), checks=[{"name": "identities", "base_models": ["other"]}]
    )
    assert [c.spec.base_model for c in one.checks] == ["other"]


def test_a_check_measures_a_methods_adaptations_at_every_budget():
    plan = planned(checks=[EQUATION_6])
    assert [measured(check) for check in plan.checks] == [
        (("prefix_tuning", 32),), (("prefix_tuning", 64),),
    ]  # fmt: skip
    for check in plan.checks:
        (found,) = check.resolved.adaptations
        assert found.digest == check.cells[0].digest
        assert found.seeds == (0, 1)


def test_what_comes_out_the_same_at_two_budgets_is_measured_once():
    plan = planned(
        methods=[{"name": "prefix_tuning", "length": 2, "label": "two"}, "lora"],
        checks=[{"name": "relative_attention", "of": "two"}],
    )
    assert [measured(check) for check in plan.checks] == [(("two", 32),)]


def test_adaptations_are_measured_together_where_that_is_asked_for():
    plan = planned(checks=[EQUATION_6 | {"together": True, "replicates": 1}])
    (check,) = plan.checks
    assert measured(check) == (("prefix_tuning", 32), ("prefix_tuning", 64))
    assert [one.seeds for one in check.resolved.adaptations] == [(0,), (0,)]


def test_a_check_of_one_task_leaves_the_others():
    tasks = [
        {"name": "sort_descending", "length": 3, "alphabet": 4},
        {"name": "sort_ascending", "length": 3, "alphabet": 4},
    ]
    plan = planned(tasks=tasks, budgets=[64], checks=[EQUATION_6 | {"task": tasks[1]}])
    (check,) = plan.checks
    assert [cell.task for cell in check.cells] == ["sort_ascending(length=3, alphabet=4)"]


def test_a_check_at_one_budget_leaves_the_others():
    at_32 = planned(checks=[EQUATION_6 | {"budget": 32}])
    assert [measured(check) for check in at_32.checks] == [(("prefix_tuning", 32),)]
    share = {"fraction_of_base": 0.125}
    at_share = planned(budgets=[32, share], checks=[EQUATION_6 | {"budget": share}])
    ((method, limit),) = measured(at_share.checks[0])
    assert (method, limit) == ("prefix_tuning", at_share.cells[-1].budget)
    assert limit != 32


def test_what_only_a_smaller_budget_can_be_asked_is_asked_at_that_one():
    # One head of 8 dimensions: the 8 rows of a prefix of 64 parameters span it whatever is true.
    span = {"name": "span", "of": "prefix_tuning"}
    assert problem(checks=[span]) == ("/checks/0/of", "prefix_too_long")
    (at_32,) = planned(checks=[span | {"budget": 32}]).checks
    assert measured(at_32) == (("prefix_tuning", 32),)
    assert problem(checks=[span | {"budget": 64}]) == ("/checks/0/of", "prefix_too_long")


def test_a_budget_that_the_study_does_not_have_is_refused_with_the_nearest():
    with pytest.raises(InvalidSpec) as caught:
        planned(checks=[EQUATION_6 | {"budget": 60}])
    (found,) = caught.value.problems
    assert (found.pointer, found.code) == ("/checks/0/budget", "not_a_budget_of_the_study")
    assert (found.allowed, found.nearest) == ((32, 64), (64, 32))
    with pytest.raises(InvalidSpec) as caught:
        planned(checks=[EQUATION_6 | {"budget": {"fraction_of_base": 0.5}}])
    assert "in fraction_of_base: none" in caught.value.problems[0].detail


@pytest.mark.parametrize(
    ("check", "pointer", "code"),
    [
        ({"name": "theorems", "budget": 32}, "/checks/0/budget", "measures_no_adaptation"),
        ({"name": "nothing"}, "/checks/0/name", "unknown_check"),
        ({"name": "theorems", "effort": "much"}, "/checks/0/effort", "literal_error"),
        ({"name": "span"}, "/checks/0/of", "adaptation_needed"),
        ({"name": "span", "of": "prefix"}, "/checks/0/of", "not_a_method_of_the_study"),
        ({"name": "span", "of": "frozen"}, "/checks/0/of", "not_a_prefix"),
        (EQUATION_6 | {"task": "copy"}, "/checks/0/task", "not_a_task_of_the_study"),
        (
            EQUATION_6 | {"base_models": ["none"]},
            "/checks/0/base_models/0", "not_a_base_of_the_study",
        ),
        ({"name": "identities", "of": "lora"}, "/checks/0/of", "measures_no_adaptation"),
        (
            {"name": "theorems", "base_models": ["tiny-sort"]},
            "/checks/0/base_models", "measures_no_base",
        ),
    ],
)  # fmt: skip
def test_a_check_that_cannot_be_done_is_refused(check: Any, pointer: str, code: str):
    assert problem(checks=[check]) == (pointer, code)


def test_the_task_of_a_check_of_base_models_is_its_own():
    base = other_base(vocabulary=53, context=23)
    own = {"name": "episodes", "kinds": 3}
    saliency = {"name": "saliency", "task": own, "samples": 100}
    (check,) = alone(base, checks=[saliency]).checks
    job = json.loads(check.spec.model_dump_json(exclude_unset=True))
    assert (job["base_model"], job["checks"]) == ("other", [saliency])
    (resolved,) = check.resolved.checks
    assert isinstance(resolved, Saliency)
    assert resolved.task == Episodes(kinds=3)
    wrong = [saliency | {"task": own | {"kinds": 0}}]
    with pytest.raises(InvalidSpec) as caught:
        alone(base, checks=wrong)
    assert caught.value.problems[0].pointer == "/checks/0/task/kinds"


def test_a_refusal_names_the_method_and_what_would_do():
    with pytest.raises(InvalidSpec) as caught:
        planned(checks=[{"name": "span", "of": "prefix_tunning"}])
    assert caught.value.problems[0].nearest[0] == "prefix_tuning"
    with pytest.raises(InvalidSpec) as caught:
        planned(checks=[{"name": "span", "of": "lora"}])
    assert "'lora' on tiny-sort trains lora" in caught.value.problems[0].detail


def test_a_check_of_a_base_model_without_attention_is_refused():
    blind = other_base(attention="none")
    assert (
        problem(blind, methods=["adapter"], budgets=[512], checks=["identities"])[0]
        == "/checks/0/base_models"
    )


def test_one_check_twice_is_refused():
    checks = ["theorems", {"name": "theorems", "effort": "small"}]
    assert problem(checks=checks) == ("/checks/1", "check_twice")
    checks = ["theorems", {"name": "rotation", "label": "theorems"}]
    assert problem(checks=checks) == ("/checks/1/label", "label_twice")


def test_checks_count_among_the_jobs_of_a_study():
    # Two references, two methods at two budgets, and a check of each of one method's two jobs.
    assert planned(checks=[EQUATION_6], most_jobs=8).checks
    assert problem(checks=[EQUATION_6], most_jobs=7) == ("", "too_many_jobs")


def test_extensions_and_clones_have_checks():
    spec = a_study_spec(checks=["theorems"])
    extension = StudyExtension.model_validate({"checks": ["theorems", EQUATION_6]})
    assert [check.name for check in extended(spec, extension).checks] == [
        "theorems",
        "relative_attention",
    ]
    assert extended(extended(spec, extension), extension) == extended(spec, extension)
    clone = changed(spec, StudyChanges.model_validate({"name": "other", "checks": [EQUATION_6]}))
    assert [check.of for check in clone.checks] == ["prefix_tuning"]
    assert changed(spec, StudyChanges(name="same")).checks == spec.checks
