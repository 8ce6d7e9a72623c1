"""Specs of theory checks: conversions and refusals.

Tests cover what specs become, and what is refused with a pointer.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.making import a_pretrain_spec, a_resolved_spec, an_adapt_spec, base_facts

from adaptlab.errors import InvalidSpec
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.theory_check import MeasuredAdaptation
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolve_theory import adaptation_of, measured_base, resolve_theory
from adaptlab.specs.resolved import ResolvedTheory, readable, spec_digest, write_resolved
from adaptlab.specs.spec import AnySpec, JobSpec, ResolvedSpec, TheorySpec

SPECS: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
GPT2 = base_facts(a_pretrain_spec(family={"name": "gpt2", "layers": 1, "heads": 2, "width": 8}))

FILLS_IN = {"name": "minigpt", "layers": 1, "heads": 1, "width": 8, "attention": "bidirectional"}


def resolved(
    base: BaseModelFacts | None = None,
    adaptations: Sequence[MeasuredAdaptation] = (),
    **changes: Any,
) -> ResolvedTheory:
    if adaptations:
        changes["adaptation"] = [one.job for one in adaptations]
    spec = SPECS.validate_python({"kind": "theory", **changes})
    assert isinstance(spec, TheorySpec)
    return resolve_theory(spec, base, adaptations)


def adapted(
    base: BaseModelFacts = GPT2, job: int = 1, digest: str = "1" * 64, **changes: Any
) -> MeasuredAdaptation:
    method = {"name": "prefix_tuning", "length": 2}
    spec = an_adapt_spec(**{"base_model": base.name, "method": method, "budget": {}} | changes)
    return adaptation_of(UUID(int=job), digest, resolve(spec, base))


def names(spec: ResolvedTheory) -> list[object]:
    return [check.name for check in spec.checks]


def problems(
    base: BaseModelFacts | None = None,
    adaptations: Sequence[MeasuredAdaptation] = (),
    **changes: Any,
) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSpec) as caught:
        resolved(base, adaptations, **changes)
    return [(p.pointer, p.code) for p in caught.value.problems]


def test_all_is_every_check_that_can_be_done():
    alone = resolved()
    assert set(names(alone)) == {"rotation", "theorems"}
    assert (alone.base_model, alone.base_replicates, alone.base_digest) == (None, (), None)
    assert (alone.budget.trainable_parameters, alone.training, alone.task) == (0, None, None)
    of_gpt2 = resolved(GPT2.model_copy(update={"replicates": 3}), checks="all")
    assert set(names(of_gpt2)) == {"identities", "rotation", "theorems"}, "context below 10"
    assert (of_gpt2.base_model, of_gpt2.base_replicates) == (GPT2.name, (0,))


def test_knobs_are_kept_and_defaults_filled_in():
    chosen = resolved(GPT2, checks=[{"name": "identities", "lengths": [2]}, "theorems"], seed=5)
    assert tuple(map(as_json, chosen.checks)) == (
        {"name": "identities", "lengths": [2], "samples": 8},
        {"name": "theorems", "effort": "small"},
    )
    assert chosen.seeds == (5,)


@pytest.mark.parametrize(
    ("names", "asked", "replicates"),
    [
        (["identities"], "all", (0,)),
        (["isolation"], "all", (0, 1, 2)),
        (["identities", "saliency"], "all", (0, 1, 2)),
        (["isolation"], 2, (0, 1)),
        (["isolation"], 9, (0, 1, 2)),
    ],
)
def test_checks_that_measure_each_replicate_get_those_of_the_base(
    names: list[str], asked: int | str, replicates: tuple[int, ...]
):
    episodes = {"name": "episodes", "kinds": 2}
    family = {"name": "gpt2", "layers": 2, "heads": 2, "width": 8}
    base = base_facts(a_pretrain_spec(family=family, task=episodes))
    checks = [{"name": name} for name in names]
    checks = [one | ({} if one["name"] == "identities" else {"task": episodes}) for one in checks]
    three = base.model_copy(update={"replicates": 3})
    spec = resolved(three, checks=checks, replicates=asked)
    assert spec.base_replicates == replicates
    assert readable(write_resolved(spec)) == spec


def test_all_of_an_adaptation_are_those_that_can_measure_it():
    of_prefix = resolved(GPT2, [adapted(seeds=1)])
    measuring = {"relative_attention", "prefix_attention", "span"}
    assert set(names(of_prefix)) == {"identities", "rotation", "theorems"} | measuring
    several = resolved(GPT2, [adapted(seeds=1), adapted(job=2, seeds=1)])
    assert set(names(several)) == set(names(of_prefix)) | {"clusters"}
    lora = adapted(method={"name": "lora", "rank": 1}, seeds=1)
    assert set(names(resolved(GPT2, [lora]))) & measuring == {"relative_attention"}
    assert "intruder_dimensions" in names(resolved(GPT2, [lora]))


def test_an_adaptation_brings_its_base_model_and_is_pinned_by_its_digest():
    one = adapted(seeds=[3, 1, 2])
    spec = resolved(GPT2, [one], checks=["span"])
    assert (spec.base_model, spec.base_digest) == (GPT2.name, GPT2.digest)
    assert spec.adaptations == (one,)
    assert (one.seeds, one.base_replicates) == ((3, 1, 2), (0, 1, 0))
    first = resolved(GPT2, [one], checks=["span"], replicates=2)
    assert (first.adaptations[0].seeds, first.adaptations[0].base_replicates) == ((3, 1), (0, 1))
    other_job = resolved(GPT2, [adapted(job=9, seeds=[3, 1, 2])], checks=["span"])
    assert spec_digest(other_job) == spec_digest(spec), "an equal job makes an equal adaptation"
    others = [first, resolved(GPT2, [adapted(digest="2" * 64, seeds=[3, 1, 2])], checks=["span"])]
    assert len({spec_digest(found) for found in (spec, *others)}) == 3


def test_a_network_that_made_a_prefix_is_not_looked_for():
    network = {"name": "prefix_tuning", "length": 2, "reparameterisation": {"hidden": 3}}
    assert as_json(adapted(method=network).method)["reparameterisation"] is None


def test_an_adaptation_and_a_base_model_must_agree():
    one = adapted()
    same = TheorySpec(adaptation=one.job, base_model=GPT2.name)
    assert measured_base(same, [one]) == GPT2.name
    assert problems(GPT2, [one], base_model="another") == [("/base_model", "another_base_model")]
    elsewhere = one.model_copy(update={"base_model": "another", "job": UUID(int=2)})
    assert problems(GPT2, [one, elsewhere]) == [("/adaptation", "several_base_models")]
    anew = GPT2.model_copy(update={"digest": "3" * 64})
    assert problems(anew, [one]) == [("/adaptation", "base_model_replaced")]


@pytest.mark.parametrize(
    ("check", "changes", "fault"),
    [
        ("span", {"method": {"name": "lora", "rank": 1}}, ("/adaptation", "not_a_prefix")),
        ("span", {"method": {"name": "soft_prompt", "length": 2}}, ("/adaptation", "not_a_prefix")),
        (
            "span",
            {"method": {"name": "prefix_tuning", "length": 4}},
            ("/adaptation", "prefix_too_long"),
        ),
        (
            "prefix_attention",
            {"method": {"name": "prefix_tuning", "length": 1}},
            ("/adaptation", "too_few_learned_positions"),
        ),
        ("second_layer", {}, ("/base_model", "layers_do_not_follow")),
        ("clusters", {"seeds": [0, 1]}, ("/adaptation", "too_few_prefixes")),
        (
            "clusters",
            {"method": {"name": "lora", "rank": 1}, "base_replicates": [0, 0]},
            ("/adaptation", "not_learned_positions"),
        ),
        ({"name": "clusters", "layer": 1}, {}, ("/base_model", "no_such_layer")),
        (
            {"name": "clusters", "samples": 19},
            {"base_replicates": [0, 0]},
            ("/checks/0/samples", "too_few_samples"),
        ),
    ],
)
def test_what_cannot_be_measured_of_an_adaptation_is_refused(
    check: object, changes: dict[str, Any], fault: tuple[str, str]
):
    assert problems(GPT2, [adapted(**changes)], checks=[check]) == [fault]


def test_checks_do_not_compare_questions_at_other_positions():
    family = {"name": "gpt2", "layers": 1, "heads": 2, "width": 8}
    base = base_facts(a_pretrain_spec(family=family, task={"name": "episodes", "kinds": 2}))
    task = {"name": "episodes", "kinds": 2, "shots": 0, "labels": "fixed"}
    shown = adapted(base, task=task, method={"name": "in_context"})
    assert problems(base, [shown], checks=["relative_attention"]) == [
        ("/adaptation", "question_moves")
    ]


def test_clusters_need_questions_of_one_length():
    longer = {"name": "sort_descending", "length": 2, "alphabet": 4}
    several = [adapted(), adapted(job=2, task=longer)]
    assert problems(GPT2, several, checks=["clusters"]) == [("/adaptation", "unequal_questions")]


def test_a_check_of_an_adaptation_needs_one():
    assert problems(GPT2, checks=["span"]) == [("/adaptation", "adaptation_needed")]


def test_what_cannot_be_done_is_refused_with_a_pointer():
    assert problems(checks=["theorem"]) == [("/checks/0/name", "unknown_check")]
    assert problems(checks=["theorems", "identities"]) == [("/base_model", "base_model_needed")]
    knob = {"name": "theorems", "effort": "huge"}
    assert [pointer for pointer, _ in problems(checks=[knob])] == ["/checks/0/effort"]
    assert problems(GPT2, checks=["capacity"]) == [("/base_model", "context_too_small")]
    fills_in = base_facts(a_pretrain_spec(family=FILLS_IN))
    assert problems(fills_in, checks=["capacity"]) == [("/base_model", "completes_nothing")]
    with pytest.raises(ValidationError):
        resolved(checks=[])


def test_the_checks_are_part_of_the_digest_and_other_jobs_keep_theirs():
    small = resolved(checks=["theorems"])
    full = resolved(checks=[{"name": "theorems", "effort": "full"}])
    assert spec_digest(small) != spec_digest(full)
    training = a_resolved_spec()
    without = training.model_dump(mode="json", exclude={"checks"})
    assert spec_digest(ResolvedSpec.model_validate(without)) == spec_digest(training)
    assert '"checks"' not in str(sorted(without))
