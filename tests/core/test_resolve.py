"""Specs: values of `auto`, refusals and the digest.

Tests cover what every `auto` becomes, what is refused and where, and what decides the digest.
"""

import json
from itertools import combinations

import pytest
from pydantic import TypeAdapter, ValidationError

from adaptlab.errors import InvalidSpec, UnknownName
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.methods_elsewhere import ELSEWHERE
from adaptlab.plugins.registry import as_json
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import read_resolved, spec_digest, write_resolved
from adaptlab.specs.spec import AdaptSpec, AnySpec, JobSpec, PretrainSpec, ResolvedSpec
from adaptlab.validation import validation_problems

JOBS: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
BASE = {"kind": "pretrain", "name": "base", "family": "minigpt", "task": "sort_ascending"}
ADAPT = {
    "kind": "adapt",
    "base_model": "base",
    "task": "sort_descending",
    "method": "lora",
    "budget": 768,
}


def parsed(document: dict[str, object]) -> PretrainSpec | AdaptSpec:
    spec = JOBS.validate_json(json.dumps(document), strict=True)
    assert isinstance(spec, PretrainSpec | AdaptSpec)
    return spec


def facts(**changes: object) -> BaseModelFacts:
    resolved = resolve(parsed({**BASE, "seeds": 3, **changes}), None)
    return BaseModelFacts(
        name="base",
        digest=spec_digest(resolved),
        family=resolved.family,
        task=resolved.task,
        replicates=3,
    )


def problems(document: dict[str, object]) -> dict[str, str]:
    """Pointers and codes of what is wrong with a spec."""
    try:
        resolve(parsed(document), facts())
    except ValidationError as error:
        found = validation_problems(error.errors(), document)
    except InvalidSpec as error:
        found = error.problems
    else:
        return {}
    return {problem.pointer: problem.code for problem in found}


def test_pretraining_takes_vocabulary_and_context_from_its_tasks():
    resolved = resolve(parsed({**BASE, "evaluation": {"tasks": [{"name": "add", "k": 5}]}}), None)
    assert as_json(resolved.family)["vocabulary"] == 13
    assert as_json(resolved.family)["context"] == 19
    assert resolved.seeds == (0,)
    assert resolved.budget.trainable_parameters == sum(resolved.budget.tensors.values())


def test_an_adaptation_takes_its_seeds_from_the_base():
    resolved = resolve(parsed(ADAPT), facts())
    assert resolved.seeds == (0, 1, 2)
    assert resolved.base_replicates == (0, 1, 2)
    assert resolved.method is not None
    assert as_json(resolved.method) == {
        "name": "lora",
        "rank": 2,
        "alpha": 1.0,
        "sites": ["q", "v"],
        "scaling": "standard",
        "dora": False,
    }
    assert resolved.training.learning_rates == (2e-2,)
    assert [task.name for task in resolved.evaluation_tasks] == ["sort_descending"]


def test_trials_are_spread_over_the_methods_range():
    resolved = resolve(parsed({**ADAPT, "tuning": {"trials": 4}}), facts())
    assert resolved.training.learning_rates == pytest.approx((1e-3, 1e-2, 1e-1, 1))


def test_short_forms_mean_the_long_ones():
    long = {
        **ADAPT,
        "task": {"name": "sort_descending"},
        "method": {"name": "lora"},
        "budget": {"trainable_parameters": 768},
    }
    assert resolve(parsed(ADAPT), facts()) == resolve(parsed(long), facts())


def overridden(*overrides: dict[str, object]) -> dict[str, object]:
    return {"method": {"name": "lora", "overrides": list(overrides)}, "budget": 10_000}


def test_a_share_of_the_base_is_a_budget():
    resolved = resolve(parsed({**ADAPT, "budget": {"fraction_of_base": 0.01}}), facts())
    assert resolved.budget.requested == 1157  # 1 % of 115,776, rounded down
    assert resolved.budget.trainable_parameters == 1152


def test_the_digest_is_of_what_decides_the_result():
    digest = spec_digest(resolve(parsed(ADAPT), facts()))
    same = {**ADAPT, "labels": {"who": "me"}, "resources": {"queue": "gpu", "priority": 9}}
    assert spec_digest(resolve(parsed(same), facts())) == digest
    other = {**ADAPT, "training": {"steps": 2001}}
    assert spec_digest(resolve(parsed(other), facts())) != digest
    assert spec_digest(resolve(parsed(ADAPT), facts(training={"steps": 7}))) != digest


def test_a_resolved_spec_comes_back_from_json():
    resolved = resolve(parsed({**ADAPT, "capture": {"attention": {}}}), facts())
    document = write_resolved(resolved)
    assert ResolvedSpec.model_validate_json(document.model_dump_json()) == document
    assert ResolvedSpec.model_validate(document.model_dump(mode="json")) == document
    assert read_resolved(document) == resolved


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"method": "lorra"}, {"/method/name": "unknown_method"}),
        ({"task": "sorting"}, {"/task/name": "unknown_task"}),
        ({"method": {"name": "lora", "rank": "two"}}, {"/method/rank": "int_type"}),
        ({"method": {"name": "lora", "ranks": 2}}, {"/method/ranks": "extra_forbidden"}),
        ({"method": {"name": "lora", "sites": ["w"]}}, {"/method/sites/0": "unknown_site"}),
        (overridden({"sites": ["o"], "rank": 2}), {"/method/overrides/0/sites": "unknown_site"}),
        (overridden({"sites": ["q"]}), {"/method/overrides/0": "nothing_overridden"}),
        (
            overridden({"sites": ["q"], "rank": 10**6}),
            {"/method/overrides/0/rank": "rank_out_of_range"},
        ),
        (
            overridden({"sites": ["q"], "rank": 2}, {"sites": ["v"], "rank": 1}),
            {"/method/overrides": "nothing_left"},
        ),
        (
            overridden({"sites": ["q"], "rank": 2}, {"sites": ["q"], "alpha": 1}),
            {"/method/overrides/1/sites": "unknown_site"},
        ),
        (
            overridden({"sites": [], "alpha": 0}),
            {
                "/method/overrides/0/sites": "too_short",
                "/method/overrides/0/alpha": "greater_than",
            },
        ),
        ({"task": {"name": "add", "k": 50}}, {"/task": "vocabulary_too_small"}),
        ({"task": {"name": "add", "length": 11}}, {"/task": "context_too_small"}),
        ({"budget": 50}, {"/budget/trainable_parameters": "infeasible_budget"}),
        ({"budget": {}}, {"/budget": "budget_missing"}),
        ({"budget": "96"}, {"/budget": "budget_type"}),
        ({"budget": [96]}, {"/budget": "budget_type"}),
        ({"budget": -1}, {"/budget": "greater_than_equal"}),
        ({"budget": {"trainable_parameters": 9, "fraction_of_base": 0.5}},
         {"/budget": "ambiguous_budget"}),
        ({"training": {"steps": "10"}}, {"/training/steps": "int_type"}),
        ({"training": {"steps": True}}, {"/training/steps": "int_type"}),
        ({"training": {"stepz": 10}}, {"/training/stepz": "extra_forbidden"}),
        ({"seeds": 0}, {"/seeds": "greater_than_equal"}),
        ({"kind": "adopt"}, {"/kind": "union_tag_invalid"}),
        ({"capture": {"attention": {"inputs": [[1, 2]]}}},
         {"/capture/attention/inputs/0": "not_an_input"}),
        ({"evaluation": {"tasks": ["sort_ascending", "nothing"]}},
         {"/evaluation/tasks/1/name": "unknown_task"}),
    ],
)  # fmt: skip
def test_faults_are_pointed_at(changes: dict[str, object], expected: dict[str, str]):
    assert problems({**ADAPT, **changes}) == expected


def test_an_unknown_name_lists_those_that_are_known():
    with pytest.raises(UnknownName) as caught:
        resolve(parsed({**ADAPT, "method": "lorra"}), facts())
    (problem,) = caught.value.problems
    assert "lora" in problem.allowed
    assert problem.nearest[0] == "lora"


@pytest.mark.parametrize(
    ("name", "said", "nearest"),
    [("DoRA", "`dora: true`", "lora"), ("LoRA+", "alpha times c", "lora"),
     ("prompt-tuning", "It is soft_prompt", "soft_prompt"), ("Lily", "its neighbours", "lora")],
)  # fmt: skip
def test_names_of_other_tools_are_said_in_ours(name: str, said: str, nearest: str):
    with pytest.raises(UnknownName) as caught:
        resolve(parsed({**ADAPT, "method": name}), facts())
    (problem,) = caught.value.problems
    assert said in problem.detail
    assert problem.nearest == (nearest,)


def test_what_is_known_of_other_tools_names_methods_that_are_here():
    assert {nearest for _, nearest in ELSEWHERE.values()} <= {*METHODS.names()}
    assert not ELSEWHERE.keys() & {*METHODS.names()}


def test_heads_must_divide_the_width():
    with pytest.raises(InvalidSpec) as caught:
        resolve(parsed({**BASE, "family": {"name": "minigpt", "width": 10, "heads": 4}}), None)
    (problem,) = caught.value.problems
    assert problem.pointer == "/family/heads"
    assert set(problem.nearest) == {2, 5}


NESTED: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "a knob of a part": (
        {"parts": [{"name": "lora", "rank": "x"}, "bitfit"]},
        {"/method/parts/0/rank": "int_type"},
    ),
    "an unknown knob of a part": (
        {"parts": ["lora", {"name": "bitfit", "rank": 1}]},
        {"/method/parts/1/rank": "extra_forbidden"},
    ),
    "a knob in a knob of a part": (
        {"parts": ["lora", {"name": "prefix_tuning", "reparameterisation": {"hidden": 0}}]},
        {"/method/parts/1/reparameterisation/hidden": "greater_than_equal"},
    ),
    "an unknown part": (
        {"parts": ["lora", {"name": "lorra"}]},
        {"/method/parts/1/name": "unknown_method"},
    ),
    "an unknown bare name": ({"parts": ["lorra", "lora"]}, {"/method/parts/0": "unknown_method"}),
    "a number": ({"parts": ["lora", 7]}, {"/method/parts/1": "model_type"}),
    "no name": ({"parts": ["lora", {"rank": 1}]}, {"/method/parts/1/name": "missing"}),
    "a name that is no text": (
        {"parts": ["lora", {"name": None}]},
        {"/method/parts/1/name": "string_type"},
    ),
    "one part": ({"parts": ["lora"]}, {"/method/parts": "too_few_parts"}),
    "a part twice": ({"parts": ["lora", "lora"]}, {"/method/parts/1/name": "part_twice"}),
    "a nested combination": (
        {"parts": ["lora", "combine"]},
        {"/method/parts/1/name": "nested_combination"},
    ),
    "two that train one tensor": (
        {"parts": ["layernorm_tuning", "bitfit"]},
        {"/method/parts/1/name": "parts_overlap"},
    ),
    "a share too few": (
        {"parts": ["lora", "bitfit"], "shares": [1]},
        {"/method/shares": "shares_do_not_match"},
    ),
    "a site that is not there": (
        {"parts": [{"name": "lora", "sites": ["q", "nix"]}, "soft_prompt"]},
        {"/method/parts/0/sites/1": "unknown_site"},
    ),
}


@pytest.mark.parametrize(("knobs", "expected"), NESTED.values(), ids=NESTED)
def test_faults_inside_a_combination_are_pointed_at(
    knobs: dict[str, object], expected: dict[str, str]
):
    assert problems({**ADAPT, "method": {"name": "combine", **knobs}}) == expected


def test_a_combination_comes_back_from_its_resolved_form():
    method = {"name": "combine", "parts": ["soft_prompt", {"name": "lora", "dora": True}]}
    spec = {**ADAPT, "method": method, "budget": 5000, "tuning": {"trials": 2}}
    resolved = resolve(parsed(spec), facts())
    stored = ResolvedSpec.model_validate_json(write_resolved(resolved).model_dump_json())
    assert read_resolved(stored) == resolved
    # the geometric means of the ends of both ranges, 1e-3 to 3 and 1e-3 to 1
    assert resolved.training.learning_rates == pytest.approx((1e-3, 3**0.5))


def test_a_combination_has_the_geometric_mean_of_its_parts_learning_rates():
    spec = {**ADAPT, "method": {"name": "combine"}, "budget": 5000}
    resolved = resolve(parsed(spec), facts())
    assert resolved.training.learning_rates == pytest.approx(((1e-2 * 2e-2) ** 0.5,))


def test_the_shape_of_a_family_is_made_once_and_is_that_of_its_configuration():
    """Families that differ in one switch have a shape each.

    It does not matter which was asked for before.
    """
    families = (
        {"name": "minigpt"},
        {"name": "minigpt", "attention_norm": False},
        {"name": "gpt2", "layers": 1, "heads": 1, "width": 96},
        {"name": "llama", "layers": 1, "width": 96, "heads": 2},
    )
    configured = [facts(family=family).family for family in families]
    shapes = [family_shape(family) for family in configured]
    assert shapes == [family.shape() for family in configured]
    assert all(shape != other for shape, other in combinations(shapes, 2))
    for family, shape in zip(configured, shapes, strict=True):
        assert family_shape(type(family).model_validate_json(family.model_dump_json())) is shape
