"""Configurations that say they compute one function do.

Where they differ, they say nothing.
"""

import pytest
from tests.engine.making import (
    SMALL_OF_EACH,
    adaptation,
    base_tensors,
    items,
    one_layer,
    perturbed,
    trainables,
)

from adaptlab.engine.models.model import Model
from adaptlab.plugins.family import Family

SOFT_PROMPT: dict[str, object] = {"name": "soft_prompt", "length": 3, "initial_scale": 0.5}
LATE_PROMPT: dict[str, object] = {"name": "suffix_tuning", "length": 3, "scope": "input_only"}
each = pytest.mark.parametrize("method", [SOFT_PROMPT, LATE_PROMPT], ids=["prompt", "suffix"])
every_family = pytest.mark.parametrize("family", SMALL_OF_EACH)


def difference(method: dict[str, object], family: Family) -> tuple[str, float]:
    """Return the equivalent configuration, and the difference from it.

    The difference is how far apart they are with the same tensors.
    """
    given = adaptation(method, family=family)
    assert given.method is not None
    standing = given.method.equivalent_on(given.shape)
    other = adaptation(standing.model_dump(mode="json"), family=family)
    base, made = base_tensors(given), items(given)
    trained = perturbed(given, trainables(given, base).tensors)
    same = dict(zip(other.trained_shapes, trained.values(), strict=True))
    assert [one.initialiser for one in given.trained_shapes.values()] == [
        one.initialiser for one in other.trained_shapes.values()
    ]
    found, expected = (
        Model(plan, base, tensors).logits(made.tokens, slice(None))
        for plan, tensors in ((other, same), (given, trained))
    )
    name = f"{standing.name} {getattr(standing, 'scope', '')}".strip()
    return name, (found - expected).abs().max().item()


@every_family
@each
def test_what_one_layer_alone_reads_is_a_row_of_that_layer(method: dict[str, object], family: str):
    name, apart = difference(method, one_layer(SMALL_OF_EACH[family]))
    assert name == ("prefix_tuning" if method is SOFT_PROMPT else "suffix_tuning per_layer")
    assert apart < 1e-12


@every_family
@each
def test_with_two_layers_nothing_stands_for_it(method: dict[str, object], family: str):
    plan = adaptation(method, family=SMALL_OF_EACH[family])
    assert plan.method is not None
    assert plan.method.equivalent_on(plan.shape) == plan.method


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
@each
def test_also_where_virtual_tokens_see_the_content(method: dict[str, object], attention: str):
    family = one_layer(SMALL_OF_EACH["minigpt"]).model_copy(update={"attention": attention})
    _, apart = difference(method, family)
    assert apart < 1e-12
