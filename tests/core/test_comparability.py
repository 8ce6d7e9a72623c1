"""Settings in which compared jobs differ are found, weighed and named."""

from typing import Any

import pytest
from tests.core.comparable import MACHINE, a_job, an_imported_job, pointers
from tests.core.scoring import drawn
from tests.making import an_environment

from adaptlab.comparisons.comparability import comparability, comparable_groups
from adaptlab.comparisons.comparison import compare
from adaptlab.specs.spec import EvaluationBase


def test_methods_and_budgets_are_what_is_compared():
    first = a_job("prefix", method="prefix_tuning", budget=16)
    second = a_job("lora", method="lora", budget=64, seeds=5)
    assert pointers(first, second) == {}


def test_scores_on_other_base_models_void_nothing():
    """Only methods that find tokens have them."""
    carrying = a_job("pez", method="pez", budget=16)
    others = ({"name": "other", "digest": "d", "family": {"name": "minigpt"}, "replicates": 1},)
    spec = carrying.spec.model_copy(
        update={"evaluation_bases": tuple(map(EvaluationBase.model_validate, others))}
    )
    carried = carrying.model_copy(update={"spec": spec})
    assert pointers(carried, a_job("lora", method="lora", budget=64)) == {}


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"training": {"steps": 5, "batch_size": 4}}, "/training/steps"),
        ({"training": {"steps": 4, "batch_size": 8}}, "/training/batch_size"),
        (
            {"training": {"steps": 4, "batch_size": 4, "precision": "float64"}},
            "/training/precision",
        ),
        ({"training": {"steps": 4, "batch_size": 4, "schedule": "constant"}}, "/training/schedule"),
        ({"task": {"name": "sort_descending", "length": 2, "alphabet": 4}}, "/task/length"),
        ({"evaluation": {"samples": 17}}, "/evaluation_samples"),
    ],
)
def test_what_voids_a_comparison_is_named_with_both_values(changes: dict[str, Any], pointer: str):
    (found,) = comparability([a_job("one"), a_job("two"), a_job("other", **changes)])
    assert (found.pointer, found.weight) == (pointer, "voids")
    assert [value.jobs for value in found.values] == [("one", "two"), ("other",)]
    assert found.values[0].value in found.text
    assert found.values[1].value in found.text


def test_a_knob_that_one_task_lacks_is_a_difference_too():
    other = a_job("other", task={"name": "add", "length": 3, "alphabet": 4})
    found = pointers(a_job("one"), other)
    assert found["/task/name"] == "voids"
    assert all(weight == "voids" for weight in found.values())
    assert len(found) > 1  # the addend


def test_machines_are_compared_where_they_matter():
    other = MACHINE.model_copy(update={"code_version": "def", "device": "cuda", "threads": 8})
    assert pointers(a_job("one"), a_job("two", other), a_job("unknown", None)) == {
        "/environment/code_version": "voids",
        "/environment/device": "note",
    }


def test_unequal_effort_is_a_warning_of_its_own():
    few, many = a_job("few", tuning={"trials": 2}), a_job("many", tuning={"trials": 6})
    assert pointers(few, many) == {"/training/trials": "effort"}
    rows = [drawn([0.5, 0.6, 0.4], 200, name, key=key) for key, name in enumerate(("few", "many"))]
    found = compare("sort_descending", rows, differences=comparability([few, many]))
    assert not found.voided
    assert [one.kind for one in found.warnings] == ["unequal_effort"]


def test_what_trains_nothing_has_no_training_that_could_differ():
    frozen = a_job("frozen", method="frozen", budget={}, training={"steps": 1, "batch_size": 1})
    assert frozen.spec.budget.trainable_parameters == 0
    assert pointers(frozen, a_job("one", tuning={"trials": 6})) == {}
    assert pointers(frozen, a_job("one", evaluation={"samples": 17})) == {
        "/evaluation_samples": "voids"
    }


def test_an_imported_adapter_has_no_effort_that_could_differ():
    one, imported = a_job("one", tuning={"trials": 6}, seeds=1), an_imported_job("imported")
    assert pointers(one, imported) == {}
    assert pointers(one, an_imported_job("imported", evaluation={"samples": 17})) == {
        "/evaluation_samples": "voids"
    }


def test_seeds_that_start_from_other_replicates_of_the_base_do_not_pair():
    one, two = a_job("one", seeds=[0, 1]), a_job("two", seeds=[1, 0])
    assert set(pointers(one, two)) == {"/base_replicates (seed 0)", "/base_replicates (seed 1)"}


def test_a_voided_comparison_says_so():
    jobs = [a_job("one"), a_job("two", evaluation={"samples": 17})]
    rows = [drawn([0.5, 0.6, 0.4], 200, name, key=key) for key, name in enumerate(("one", "two"))]
    found = compare("sort_descending", rows, differences=comparability(jobs))
    assert found.voided
    assert found.warnings[0].kind == "not_comparable"


def test_jobs_fall_into_groups_that_may_be_compared():
    longer = {"steps": 5, "batch_size": 4}
    jobs = [
        a_job("prefix", method="prefix_tuning"),
        a_job("prefix longer", method="prefix_tuning", training=longer),
        a_job("frozen", method="frozen", budget={}),
        a_job("lora", method="lora", budget=64),
        a_job("lora elsewhere", an_environment(threads=2, code_version="def"), method="lora",
              budget=64),
    ]  # fmt: skip
    groups = [{job.label for job in group} for group in comparable_groups(jobs)]
    # What trains nothing has no steps that could differ, but its code can.
    assert groups == [{"prefix", "lora", "frozen"}, {"prefix longer", "frozen"}, {"lora elsewhere"}]
    assert comparable_groups([]) == ()
    (alone,) = comparable_groups([jobs[2]])
    assert alone == (jobs[2],)


def test_a_group_holds_only_seeds_that_start_alike():
    turned = a_job("turned", base_replicates=(1, 0))
    groups = comparable_groups([a_job("one"), turned, a_job("later", seeds=(5, 6))])
    assert [[job.label for job in group] for group in groups] == [["one", "later"], ["turned"]]
