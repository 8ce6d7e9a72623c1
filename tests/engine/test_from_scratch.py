"""A control in which nothing of the base's weights is left.

What takes their place is fresh.
"""

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH, adaptation, base_tensors, items, trainables

from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.allocate import allocate
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS, methods_without_base

every_family = pytest.mark.parametrize("family", FAMILIES.names())


def planned(family: str) -> Plan:
    return adaptation("from_scratch", family=SMALL_OF_EACH[family], seeds=2)


@every_family
def test_weights_start_as_those_of_a_base_model_do(family: str):
    plan = planned(family)
    started = trainables(plan, base_tensors(plan))
    # As pretraining would start with these seeds.
    fresh = allocate(plan.shape.tensors, plan.seeds, {}, plan.dtype)
    assert started.tensors.keys() == fresh.tensors.keys()
    assert torch.equal(started.flat, fresh.flat)
    assert torch.equal(started.decays, fresh.decays)
    assert not torch.equal(started.flat[0], started.flat[1]), "every seed has its own"


@every_family
def test_the_base_does_not_matter(family: str):
    plan = planned(family)
    base, made = base_tensors(plan), items(plan)
    tensors = trainables(plan, base).tensors
    doubled = {name: 2 * tensor for name, tensor in base.items()}
    found = Model(plan, base, tensors).logits(made.tokens, slice(None))
    assert torch.equal(Model(plan, doubled, tensors).logits(made.tokens, slice(None)), found)


def test_no_other_method_starts_anew():
    assert methods_without_base() == ("from_scratch",)
    assert METHODS.get("from_scratch").is_reference


def test_one_part_of_a_combination_cannot_replace_what_another_trains():
    with pytest.raises(InvalidSpec) as refused:
        adaptation({"name": "combine", "parts": ["from_scratch", "bitfit"]})
    assert [p.code for p in refused.value.problems] == ["parts_overlap"]
    with pytest.raises(InvalidSpec):
        adaptation({"name": "combine", "parts": ["head_only", "from_scratch"]})
