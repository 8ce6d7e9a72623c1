"""Blocks that are computed again give the same gradients and hold less."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from tests.engine.making import (
    ANYWHERE,
    OTHER_SMALL,
    SMALL_OF_EACH,
    VARIANTS,
    Remembering,
    adaptation,
    base_tensors,
    items,
    method_pairs,
    perturbed,
    sized,
    trainables,
    unsized,
)
from torch import Tensor

from adaptlab.engine.kernels.memory import saved_bytes
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.allocate import Trainables
from adaptlab.engine.training.chunks import (
    BACKWARD,
    BUFFERS,
    FEWEST_TOKENS,
    Division,
    fitting,
    smaller,
)
from adaptlab.engine.training.passes import ReplicatePass, passes
from adaptlab.engine.training.train import Training
from adaptlab.errors import OutOfMemory
from adaptlab.families.transformers import Transformers
from adaptlab.plugins.family import Family

FAMILIES = {name: one for name, one in (SMALL_OF_EACH | OTHER_SMALL).items() if name != "formal"}
DROPPING = SMALL_OF_EACH["minigpt"].model_copy(update={"dropout": 0.2})
LORA: dict[str, object] = {"name": "lora", "rank": 2}
EVERYTHING: dict[str, object] = {"name": "full_finetuning"}
NAMES = [name for name in (*ANYWHERE, *VARIANTS) if name != "frozen" and unsized(name).trains]
PAIRS = [
    (name, family)
    for name, family in method_pairs(NAMES)
    if family in ("minigpt", "transformers") or name in ("lora", "full_finetuning")
]


def planned(family: Family, method: Mapping[str, object], **changes: object) -> Plan:
    training = {"precision": "float64", "steps": 3, "batch_size": 6, "validations": 0}
    named = {"tuning": {"trials": 2}, "training": training, **changes}
    return adaptation(method, family=family, base_replicates=2, **named)  # pyright: ignore[reportArgumentType] - a JSON object


def moved(plan: Plan, base: dict[str, Tensor]) -> Trainables:
    allocated = trainables(plan, base)
    for name, value in perturbed(plan, allocated.tensors).items():
        allocated.tensors[name].data.copy_(value)
    return allocated


def one_pass(plan: Plan, base: dict[str, Tensor], replicates: int = 4) -> ReplicatePass:
    owned = moved(plan, base)
    flat = owned.flat[:replicates]
    return passes(plan, base, range(replicates), flat, owned.decays, replicates)[0][0]


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize(("name", "family"), [pair for pair in PAIRS if pair[1] != "formal"])
def test_gradients_are_the_same_to_the_last_bit(name: str, family: str):
    plan = planned(FAMILIES[family], sized(name).model_dump(mode="json"))
    whole = one_pass(plan, base_tensors(plan), 4)
    made = items(plan, 6)
    gradient, losses = whole.gradient(made, 0, 1)
    again, same = whole.recomputing().gradient(made, 0, 1)
    assert gradient.flat.abs().max() > 0
    assert torch.equal(again.flat, gradient.flat)
    assert torch.equal(same, losses)


def test_dropout_masks_are_those_of_the_first_time():
    plan = planned(DROPPING, EVERYTHING)
    whole = one_pass(plan, base_tensors(plan))
    gradient, _ = whole.gradient(items(plan, 6), 1, 1)
    again, _ = whole.recomputing().gradient(items(plan, 6), 1, 1)
    assert torch.equal(again.flat, gradient.flat)


@pytest.mark.parametrize("family", ["minigpt", "llama", "transformers", "bert"])
def test_only_the_inputs_of_blocks_are_held(family: str):
    plan = planned(FAMILIES[family], LORA)
    base = base_tensors(plan)
    whole, made = one_pass(plan, base), items(plan, 40)
    held = (whole.trainables.flat, *base.values())
    kept, again = (
        saved_bytes(lambda part=part: part.losses(made, 0), held)
        for part in (whole, whole.recomputing())
    )
    assert again < 0.45 * kept


def test_nothing_is_computed_again_outside_of_training():
    plan = planned(FAMILIES["transformers"], LORA)
    part, made = one_pass(plan, base_tensors(plan)).recomputing(), items(plan, 6)
    with torch.no_grad():
        assert not part.losses(made, 0).requires_grad
    assert torch.equal(part.mean_losses(made, 0, 1), part.losses(made, 0).detach())


WIDE = (16, FEWEST_TOKENS // 2)
"""A batch of 16 items of 32 tokens."""


@pytest.mark.parametrize(
    ("whole", "again", "room", "division"),
    [
        (100, 20, 60, Division(1, 2)),  # parts of 256 tokens
        (100, 20, 13, Division(1, 8)),  # parts of 64 tokens, the fewest
        (100, 20, 12, Division(1, 2, recomputes=True)),  # instead of parts of 32 tokens
        (100, 20, 5, Division(1, 4, recomputes=True)),
        (100, 20, 1, Division(1, 16, recomputes=True)),  # nothing fits
        (100, 100, 5, Division(1, 16)),  # computing again would not help
        (100, 90, 12, Division(1, 8, recomputes=True)),
        (100, 90, 6.3, Division(1, 16)),  # as many parts either way
    ],
)
def test_the_estimate_decides_between_parts_and_computing_again(
    whole: int, again: int, room: float, division: Division
):
    assert smaller(whole, again, room, WIDE, 1) == division


def test_parts_that_were_asked_for_are_kept():
    assert smaller(100, 20, 60, WIDE, 4) == Division(1, 4)
    assert smaller(100, 20, 5, WIDE, 8) == Division(1, 8, recomputes=True)


def trained(
    plan: Plan, scratch: Path, memory_bytes: int | None = None
) -> tuple[Tensor, Training, Remembering]:
    base, told = base_tensors(plan), Remembering()
    owned = moved(plan, base)
    training = Training(plan, Model(plan, base, owned.tensors), owned, told, memory_bytes)
    training.run(scratch)
    return owned.flat, training, told


def deep(name: str) -> Family:
    """Return a family with eight layers, of which computing again holds one."""
    family = FAMILIES[name]
    if isinstance(family, Transformers):
        return family.model_copy(update={"config": {**family.config, "num_hidden_layers": 8}})
    return family.model_copy(update={"layers": 8})


def less_than_one_item(plan: Plan) -> int:
    """Return a limit that one item meets only if blocks are computed again."""
    base = base_tensors(plan)
    flat = moved(plan, base).flat
    held = (flat, *base.values())
    one = one_pass(plan, base, 1)
    kept = saved_bytes(lambda: one.losses(items(plan, 1), 0), held)
    fixed = BUFFERS * flat.numel() * flat.element_size() + sum(t.nbytes for t in base.values())
    return int(fixed + 0.95 * BACKWARD * kept)


@pytest.mark.parametrize("family", ["minigpt", "transformers"])
def test_an_item_that_does_not_fit_is_trained_all_the_same(family: str, tmp_path: Path):
    plan = planned(deep(family), LORA, tuning={"trials": 1})
    whole, *_ = trained(plan, tmp_path)
    limit = less_than_one_item(plan)
    divided, training, _ = trained(plan, tmp_path, limit)
    assert training.division.recomputes
    assert torch.allclose(divided, whole, rtol=0, atol=1e-10)


class Refusing:
    """A model that has no memory for a step unless blocks are computed again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, ever: bool) -> None:
        self.items: list[int] = []
        answer = Model.logits

        def logits(model: Model, tokens: Tensor, *given: object, **named: object) -> Tensor:
            if torch.is_grad_enabled():
                self.items.append(tokens.shape[1])
                if not (ever and model.recomputes):
                    raise MemoryError
            return answer(model, tokens, *given, **named)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(Model, "logits", logits)


def test_blocks_are_computed_again_when_memory_runs_out_for_one_item(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    plan = planned(FAMILIES["transformers"], LORA)
    whole, *_ = trained(plan, tmp_path)
    refusing = Refusing(monkeypatch, ever=True)
    divided, training, _ = trained(plan, tmp_path)
    assert torch.allclose(divided, whole, rtol=0, atol=1e-10)
    assert training.division.recomputes
    assert list(dict.fromkeys(refusing.items)) == [6, 3, 2, 1]


def test_when_that_does_not_help_the_job_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    Refusing(monkeypatch, ever=False)
    with pytest.raises(OutOfMemory, match="Not even one item of one replicate"):
        trained(planned(FAMILIES["transformers"], LORA), tmp_path)


def test_without_a_limit_nothing_changes():
    plan = planned(FAMILIES["minigpt"], LORA)
    base = base_tensors(plan)
    one = one_pass(plan, base, 1)
    assert fitting(one, items(plan, 6), 1, None, base, one.trainables.flat.numel()) is None
