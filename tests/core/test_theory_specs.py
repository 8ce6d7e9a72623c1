"""Specs of theory checks: what they become, and what is refused with a pointer."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.making import a_pretrain_spec, a_resolved_spec, base_facts

from adaptlab.errors import InvalidSpec
from adaptlab.resolve import BaseModelFacts, spec_digest
from adaptlab.resolve_theory import resolve_theory
from adaptlab.spec import AnySpec, JobSpec, ResolvedSpec, TheorySpec
from adaptlab.theory_check import THEORY_CHECKS

SPECS: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
GPT2 = base_facts(a_pretrain_spec(family={"name": "gpt2", "layers": 1, "heads": 2, "width": 8}))

FILLS_IN = {"name": "minigpt", "layers": 1, "heads": 1, "width": 8, "attention": "bidirectional"}


def resolved(base: BaseModelFacts | None = None, **changes: Any) -> ResolvedSpec:
    spec = SPECS.validate_python({"kind": "theory", **changes})
    assert isinstance(spec, TheorySpec)
    return resolve_theory(spec, base)


def names(spec: ResolvedSpec) -> list[object]:
    return [check["name"] for check in spec.checks]


def problems(base: BaseModelFacts | None = None, **changes: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSpec) as caught:
        resolved(base, **changes)
    return [(p.pointer, p.code) for p in caught.value.problems]


def test_all_is_every_check_that_can_be_done():
    alone = resolved()
    assert set(names(alone)) == {"rotation", "theorems"}
    assert (alone.base_model, alone.base_replicates, alone.base_digest) == (None, (), None)
    assert (alone.budget.trainable_parameters, alone.training.steps, alone.task) == (0, 0, None)
    of_gpt2 = resolved(GPT2.model_copy(update={"replicates": 3}), checks="all")
    assert set(names(of_gpt2)) == set(THEORY_CHECKS.names()) - {"capacity"}, "context below 10"
    assert (of_gpt2.base_model, of_gpt2.base_replicates) == (GPT2.name, (0,))


def test_knobs_are_kept_and_defaults_filled_in():
    chosen = resolved(GPT2, checks=[{"name": "identities", "lengths": [2]}, "theorems"], seed=5)
    assert chosen.checks == (
        {"name": "identities", "lengths": [2], "samples": 8},
        {"name": "theorems", "effort": "small"},
    )
    assert chosen.seeds == (5,)


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
