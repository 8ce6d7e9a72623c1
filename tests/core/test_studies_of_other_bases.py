"""Studies whose methods are evaluated on the study's other base models."""

import pytest
from tests.making import a_pretrain_spec, a_study_spec, base_facts

from adaptlab.errors import InvalidSpec
from adaptlab.reproductions.recipe_study import with_base_names
from adaptlab.studies.study import StudySpec
from adaptlab.studies.study_expansion import expand

OTHER = base_facts(a_pretrain_spec(name="other", seeds=3))
FACTS = (base_facts(), OTHER)
OWN = FACTS[0].name


def a_study(*others: str, methods: tuple[str, ...] = ("frozen", "prefix_tuning")) -> StudySpec:
    return a_study_spec(
        base_models=[OWN, "other"],
        methods=list(methods),
        evaluation={"samples": 16, "base_models": list(others)},
    )


def test_each_base_is_left_out_of_its_own_jobs_and_so_are_trained_parameters() -> None:
    plan = expand(a_study(OWN, "other"), FACTS, 100)
    elsewhere = {
        (job.resolved.base_model, job.resolved.method.name): [
            other.name for other in job.resolved.evaluation_bases
        ]
        for job in plan.jobs
    }
    assert elsewhere == {
        (OWN, "frozen"): ["other"],
        (OWN, "prefix_tuning"): [],
        ("other", "frozen"): [OWN],
        ("other", "prefix_tuning"): [],
    }
    for job in plan.jobs:
        others = [other.name for other in job.resolved.evaluation_bases]
        assert list(job.spec.evaluation.base_models) == others


def test_a_base_that_the_study_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidSpec) as refused:
        expand(a_study("third"), FACTS, 100)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code) == (
        "/evaluation/base_models/0",
        "not_a_base_of_the_study",
    )
    assert problem.allowed == (OWN, "other")


def test_jobs_of_parameters_are_those_of_a_study_without_other_bases() -> None:
    with_others, plain = (expand(a_study(*names), FACTS, 100) for names in ((OWN, "other"), ()))
    digests = [
        {job.digest for job in plan.jobs if job.resolved.method.name == "prefix_tuning"}
        for plan in (with_others, plain)
    ]
    assert digests[0] == digests[1]


def test_renamed_bases_are_renamed_in_the_evaluation() -> None:
    renamed = with_base_names(a_study("other"), {"other": "new"})
    assert renamed.base_models == (OWN, "new")
    assert renamed.evaluation.base_models == ("new",)
