"""Virtual tokens that start as tokens of the vocabulary: which, for whom, and what it costs."""

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH, adaptation, base_tensors, single, trainables

from adaptlab.engine.plan import Plan
from adaptlab.errors import InvalidSpec
from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.registry import as_json
from adaptlab.specs.resolved import spec_digest

SOFT_PROMPT: dict[str, object] = {"name": "soft_prompt", "length": 5}
LATE_PROMPT: dict[str, object] = {"name": "suffix_tuning", "length": 5, "scope": "input_only"}
METHODS = [SOFT_PROMPT, LATE_PROMPT]
VOCABULARY = 8  # of the models below; two tokens are beyond the alphabet of the task
every_family = pytest.mark.parametrize("family", FAMILIES.names())
each = pytest.mark.parametrize("method", METHODS, ids=["prompt", "suffix"])


def started(plan: Plan, groups: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """The embedding [G, V, C] and the rows [R, P, C'] that start from it."""
    base = base_tensors(plan, groups)
    (rows,) = trainables(plan, base).tensors.values()
    return base["embed.weight"], rows.detach()


def drawn(table: torch.Tensor, rows: torch.Tensor) -> list[list[int]]:
    """The tokens [R][P] whose embeddings, bit for bit, the rows start with; zeros follow."""
    width = table.shape[-1]
    assert rows[..., width:].count_nonzero() == 0
    each = table.repeat_interleave(len(rows) // len(table), 0)  # R, V, C
    equal = (rows[:, :, None, :width] == each[:, None]).all(-1)  # R, P, V
    assert (equal.sum(-1) == 1).all()
    return equal.int().argmax(-1).tolist()


def from_vocabulary(method: dict[str, object], **changes: object) -> dict[str, object]:
    return {**method, "initialisation": "vocabulary", **changes}


@every_family
@each
def test_rows_are_embeddings_of_tokens_none_of_them_twice(method: dict[str, object], family: str):
    plan = adaptation(from_vocabulary(method), family=SMALL_OF_EACH[family], seeds=[0, 1, 2])
    tokens = drawn(*started(plan))
    assert all(len(set(of)) == 5 for of in tokens)
    assert len({tuple(of) for of in tokens}) == 3, "every seed draws its own"


@each
def test_a_longer_one_takes_the_whole_vocabulary_before_any_token_again(
    method: dict[str, object],
):
    plan = adaptation(from_vocabulary(method, length=2 * VOCABULARY + 3), seeds=[0, 1])
    for tokens in drawn(*started(plan)):
        first, second = tokens[:VOCABULARY], tokens[VOCABULARY : 2 * VOCABULARY]
        assert sorted(first) == sorted(second) == list(range(VOCABULARY))
        assert first != second
        assert len(set(tokens[2 * VOCABULARY :])) == 3


@each
def test_a_shorter_one_is_the_beginning_of_a_longer_one(method: dict[str, object]):
    short, long = (
        drawn(*started(adaptation(from_vocabulary(method, length=length)))) for length in (2, 5)
    )
    assert [of[:2] for of in long] == short


@every_family
@each
@pytest.mark.parametrize("groups", [1, 3], ids=["shared base", "a base per seed"])
def test_a_replicate_in_a_stack_starts_as_it_does_alone(
    groups: int, method: dict[str, object], family: str
):
    tuning = {"learning_rates": [0.1, 0.2]}
    plan = adaptation(
        from_vocabulary(method),
        family=SMALL_OF_EACH[family],
        base_replicates=groups,
        seeds=[4, 5, 6],
        tuning=tuning,
    )
    base = base_tensors(plan, groups)
    (stack,) = trainables(plan, base).tensors.values()
    tokens = drawn(base["embed.weight"], stack.detach())
    assert tokens[0::2] == tokens[1::2], "the trials of a seed start alike"
    for replicate in range(plan.replicates):
        group = 0 if groups == 1 else replicate // plan.trials
        own = {name: tensor[group : group + 1] for name, tensor in base.items()}
        (alone,) = trainables(single(plan, replicate), own).tensors.values()
        assert torch.equal(alone[0], stack[replicate])


@each
def test_the_mask_of_a_bidirectional_model_is_no_token(method: dict[str, object]):
    family = SMALL_OF_EACH["minigpt"].model_copy(update={"attention": "bidirectional"})
    plan = adaptation(from_vocabulary(method, length=VOCABULARY), family=family)
    table, rows = started(plan)
    assert table.shape[1] == VOCABULARY + 1
    assert sorted(drawn(table, rows)[0]) == list(range(VOCABULARY))


@each
def test_it_costs_nothing_and_parts_of_combinations_have_it(method: dict[str, object]):
    plain, plan = adaptation(method), adaptation(from_vocabulary(method))
    assert plan.spec.budget == plain.spec.budget
    parts = [from_vocabulary(method), {"name": "lora", "rank": 1}]
    combined = adaptation({"name": "combine", "parts": parts})
    base = base_tensors(combined)
    rows = next(iter(trainables(combined, base).tensors.values())).detach()
    assert len(set(drawn(base["embed.weight"], rows)[0])) == 5


@each
def test_the_default_starts_and_is_stored_as_before_there_was_a_choice(method: dict[str, object]):
    plain, named = adaptation(method), adaptation({**method, "initialisation": "normal"})
    assert plain.spec.method is not None
    assert "initialisation" not in as_json(plain.spec.method)
    assert spec_digest(plain.spec) == spec_digest(named.spec)
    other = adaptation(from_vocabulary(method))
    assert spec_digest(other.spec) != spec_digest(plain.spec)
    assert other.spec.method is not None
    assert other.spec.method == other.method


@pytest.mark.parametrize(
    ("method", "tuning", "pointer", "code"),
    [
        (from_vocabulary(SOFT_PROMPT, initial_scale=0.5), {}, "/method/initial_scale",
         "nothing_to_scale"),
        (from_vocabulary(LATE_PROMPT, initial_scale=0.5), {}, "/method/initial_scale",
         "nothing_to_scale"),
        (from_vocabulary(SOFT_PROMPT), {"initial_scales": [0.5, 1]}, "/tuning/initial_scales",
         "nothing_to_scale"),
        (from_vocabulary(LATE_PROMPT, scope="per_layer"), {}, "/method/initialisation",
         "no_virtual_tokens"),
    ],
)  # fmt: skip
def test_a_scale_of_nothing_and_rows_that_are_no_tokens_are_refused(
    method: dict[str, object], tuning: dict[str, object], pointer: str, code: str
):
    with pytest.raises(InvalidSpec) as refused:
        adaptation(method, tuning=tuning)
    assert [(one.pointer, one.code) for one in refused.value.problems] == [(pointer, code)]


@each
def test_it_is_a_method_of_its_own_where_one_layer_reads_the_rows(method: dict[str, object]):
    """No configuration of what stands for it otherwise starts alike."""
    family = SMALL_OF_EACH["minigpt"].model_copy(update={"layers": 1})
    plan, plain = (adaptation(one, family=family) for one in (from_vocabulary(method), method))
    assert plan.method is not None
    assert plain.method is not None
    assert plan.method.equivalent_on(plan.shape) == plan.method
    assert plan.method.without_size() == plain.method.without_size()
