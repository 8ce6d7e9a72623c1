"""Limits on the size of one job."""

import pytest
from tests.making import a_pretrain_spec, base_facts

from adaptlab.specs.resolve_theory import resolve_theory
from adaptlab.specs.spec import TheorySpec
from adaptlab.tasks.episodes import Episodes
from adaptlab_services.limits.sizes import Sizes

PASSES, SAMPLES = 5, 100


@pytest.mark.parametrize("replicates", [1, 3])
def test_a_check_of_every_replicate_counts_tokens_for_each(replicates: int) -> None:
    task = Episodes(kinds=2)
    family = {"name": "gpt2", "layers": 2, "heads": 2, "width": 8}
    facts = base_facts(a_pretrain_spec(family=family, task=task.model_dump(mode="json")))
    base = facts.model_copy(update={"replicates": replicates})
    check = {"name": "saliency", "task": task.model_dump(mode="json"), "samples": SAMPLES}
    spec = TheorySpec.model_validate({"base_model": base.name, "checks": (check,)})
    tokens = PASSES * SAMPLES * task.sequence_length() * replicates
    job = resolve_theory(spec, base)
    allowed, tight = (Sizes(10**9, 10**9, 10**9, most, 10**9) for most in (tokens, tokens - 1))
    assert list(allowed.problems(job)) == []
    (problem,) = tight.problems(job)
    assert f"computes {tokens:,} tokens" in problem.detail
