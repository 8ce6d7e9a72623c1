"""Any division of a step's replicates and items gives the same result."""

import gc
import weakref
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import torch
from tests.engine.making import (
    SMALL,
    Remembering,
    adaptation,
    base_tensors,
    perturbed,
    trainables,
)
from tests.engine.running import run
from tests.engine.tiny import pretraining
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training import chunks
from adaptlab.engine.training.chunks import BACKWARD, BUFFERS
from adaptlab.engine.training.passes import arranged, cuts
from adaptlab.engine.training.train import Training
from adaptlab.errors import OutOfMemory, is_out_of_memory
from adaptlab.runs.events import CheckpointWritten, Finished, Metrics, ReplicatesDecided
from adaptlab.specs.resolve import resolve

FAMILY = SMALL.model_copy(update={"dropout": 0.2})
LORA = {"name": "lora", "rank": 2}
PREFIX = {"name": "prefix_tuning", "length": 2}
EVERYTHING = {"name": "full_finetuning"}
TRAINING = {"precision": "float64", "steps": 3, "batch_size": 6, "validations": 1}


def planned(method: object, trials: int = 3, seeds: int = 2, **training: object) -> Plan:
    return adaptation(
        method,  # pyright: ignore[reportArgumentType] - a JSON object
        family=FAMILY,
        base_replicates=seeds,
        tuning={"trials": trials},
        training={**TRAINING, **training},
    )


def train(
    plan: Plan, scratch: Path, groups: int = 2, memory_bytes: int | None = None
) -> tuple[Tensor, Training]:
    """The weights of all replicates after the training, [R, N]."""
    base = base_tensors(plan, groups)
    allocated = trainables(plan, base)
    for name, moved in perturbed(plan, allocated.tensors).items():
        allocated.tensors[name].data.copy_(moved)
    model = Model(plan, base, allocated.tensors)
    training = Training(plan, model, allocated, Remembering(), memory_bytes)
    training.run(scratch)
    return allocated.flat, training


@pytest.mark.parametrize("method", [LORA, PREFIX, EVERYTHING], ids=lambda m: m["name"])
@pytest.mark.parametrize("parts", [2, 6])
def test_a_batch_in_parts_gives_what_it_gives_at_once(
    method: dict[str, object], parts: int, tmp_path: Path
):
    whole, _ = train(planned(method), tmp_path)
    divided, _ = train(planned(method, accumulation=parts), tmp_path)
    assert torch.allclose(divided, whole, rtol=0, atol=1e-10)


def live_tensors() -> int:
    gc.collect()
    return sum(type(thing) in (Tensor, torch.nn.Parameter) for thing in gc.get_objects())


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("method", [LORA, EVERYTHING], ids=lambda m: m["name"])
def test_a_training_leaves_no_tensor_behind(method: dict[str, object], tmp_path: Path):
    train(planned(method), tmp_path, memory_bytes=2**30)  # what is made once is made by now
    before = live_tensors()
    train(planned(method), tmp_path, memory_bytes=2**30)
    assert live_tensors() == before


def test_dropout_has_to_know_where_a_part_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from adaptlab.engine.training import passes

    whole, _ = train(planned(EVERYTHING), tmp_path)
    right = passes.training_step
    monkeypatch.setattr(
        passes, "training_step", lambda plan, step, first, seeds: right(plan, step, 0, seeds)
    )
    wrong, _ = train(planned(EVERYTHING, accumulation=2), tmp_path)
    assert not torch.allclose(wrong, whole, rtol=0, atol=1e-6)


class Refusing:
    """A model with memory for limited replicates and training items.

    The memory suffices for a limited number of them.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, most: int, error: Exception, items: int = 100
    ) -> None:
        self.sizes: list[int] = []
        self.items: list[int] = []
        answer = Model.logits

        def logits(model: Model, tokens: Tensor, *given: object, **named: object) -> Tensor:
            self.sizes.append(max(len(tensor) for tensor in model.trained.values()))
            if torch.is_grad_enabled():
                self.items.append(tokens.shape[1])
            if self.sizes[-1] > most or (torch.is_grad_enabled() and tokens.shape[1] > items):
                raise error
            return answer(model, tokens, *given, **named)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(Model, "logits", logits)


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
]


@pytest.mark.parametrize("method", [PREFIX, EVERYTHING], ids=lambda m: m["name"])
@pytest.mark.parametrize(("groups", "most", "passes"), [(1, 5, 2), (2, 3, 2), (2, 1, 6)])
def test_where_memory_runs_out_the_passes_are_halved_and_the_same_comes_out(
    method: dict[str, object],
    groups: int,
    most: int,
    passes: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    whole, _ = train(planned(method), tmp_path, groups)
    refusing = Refusing(monkeypatch, most, OUT_OF_MEMORY[most % 3])
    divided, training = train(planned(method), tmp_path, groups)
    assert torch.allclose(divided, whole, rtol=0, atol=1e-10)
    assert refusing.sizes[0] == 6, "all at once were tried first"
    assert max(refusing.sizes[-6:]) <= most
    # 6 halve to 3; 3 are the trials of one seed and go to 1, because 1 is the half of 3
    assert training.division.passes == passes


def test_an_error_that_is_not_about_memory_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    refusing = Refusing(monkeypatch, 3, RuntimeError("a bug at heart"))
    with pytest.raises(RuntimeError, match="a bug at heart"):
        train(planned(LORA), tmp_path)
    assert refusing.sizes == [6]


def test_where_not_even_one_replicate_fits_its_batch_is_split_and_the_same_comes_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    whole, _ = train(planned(LORA), tmp_path)
    refusing = Refusing(monkeypatch, 6, OUT_OF_MEMORY[0], items=2)
    divided, training = train(planned(LORA), tmp_path)
    assert torch.allclose(divided, whole, rtol=0, atol=1e-10)
    assert training.division.passes == 6
    assert list(dict.fromkeys(refusing.items)) == [6, 3, 2], "the divisors, from the whole batch"


def test_when_not_even_one_item_fits_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    Refusing(monkeypatch, 0, torch.OutOfMemoryError("Tried to allocate 2 GiB."))
    wanted = r"one item of one replicate.*smaller base model.*ADAPTLAB_MEMORY_BYTES.*2 GiB"
    with pytest.raises(OutOfMemory, match=wanted) as caught:
        train(planned(LORA), tmp_path)
    assert is_out_of_memory(caught.value), "so that the job fails for that reason"


class Kept:
    """Return the bytes kept for backward passes: now and at most."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def _note(self, tensor: Tensor) -> "Holder":
        size = tensor.numel() * tensor.element_size()
        self.now += size
        self.most = max(self.most, self.now)
        holder = Holder(tensor)
        weakref.finalize(holder, self._forget, size)
        return holder

    def _forget(self, size: int) -> None:
        self.now -= size

    def measuring(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self._note, lambda holder: holder.tensor)


class Holder:
    """Something that a weak reference can point to, unlike a tensor's storage."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def kept_for_backward(plan: Plan, scratch: Path, memory_bytes: int | None) -> tuple[int, Training]:
    kept = Kept()
    with kept.measuring():
        _, training = train(plan, scratch, 1, memory_bytes)
    assert kept.now == 0
    return kept.most, training


@pytest.mark.long("long trainings")
def test_a_limit_on_memory_divides_the_replicates_and_less_is_held(tmp_path: Path):
    plan = planned(LORA, trials=4)
    free, training = kept_for_backward(plan, tmp_path, None)
    assert training.division.passes == 1
    whole, _ = train(plan, tmp_path, 1)
    tight, training = kept_for_backward(plan, tmp_path, 1)
    assert training.division.passes == 8, "without room for two, one after the other"
    assert tight < free / 4
    divided, _ = train(plan, tmp_path, 1, 1)
    assert torch.allclose(divided, whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_what_is_held_stays_within_the_limit(share: float, tmp_path: Path):
    plan = planned(LORA, trials=4, batch_size=24)
    free, _ = kept_for_backward(plan, tmp_path, None)
    held, training = kept_for_backward(plan, tmp_path, int(share * free))
    assert held <= share * free
    assert training.division.passes > 1


@pytest.mark.parametrize(("share", "parts"), [(0.6, 2), (0.25, 4), (0.01, 24)])
def test_the_batch_of_a_single_replicate_is_split_so_that_it_fits(
    share: float, parts: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    plan = planned(LORA, trials=1, seeds=1, batch_size=24)
    weights = trainables(plan, base := base_tensors(plan, 1)).flat
    fixed = 8 * (BUFFERS * weights.numel() + sum(tensor.numel() for tensor in base.values()))
    free, _ = kept_for_backward(plan, tmp_path, None)
    monkeypatch.setattr(chunks, "FEWEST_TOKENS", 0)  # so that blocks are not computed again
    seen = Refusing(monkeypatch, 1, MemoryError())
    train(plan, tmp_path, 1, fixed + int(BACKWARD * share * free))
    measured, computed_again, *stepped = seen.items
    assert measured == computed_again == 24
    assert set(stepped) == {24 // parts}


def test_parts_of_a_batch_hold_less(tmp_path: Path):
    free, _ = kept_for_backward(planned(LORA, batch_size=24), tmp_path, None)
    divided, _ = kept_for_backward(planned(LORA, batch_size=24, accumulation=4), tmp_path, None)
    assert divided < 0.4 * free


def test_a_run_within_a_limit_reports_its_passes_and_the_same_results(tmp_path: Path):
    training = {"steps": 20, "batch_size": 8, "precision": "float64"}
    spec = resolve(pretraining(seeds=3, training=training), None)
    plain, limited = Remembering(), Remembering()
    run(spec, (), tmp_path, plain, "cpu", clock=lambda: 0.0)
    (folder := tmp_path / "limited").mkdir()
    run(spec, (), folder, limited, "cpu", clock=lambda: 0.0, memory_bytes=1)
    assert plain.of(Finished)[0].usage.passes == 1
    assert limited.of(Finished)[0].usage.passes == 3
    for one, other in zip(points(plain), points(limited), strict=True):
        assert one[:3] == other[:3]
        assert one[3] == pytest.approx(other[3], abs=1e-10)
    assert len(limited.of(CheckpointWritten)) == 3
    outcomes = [(r.status, r.selected) for r in limited.of(ReplicatesDecided)[0].replicates]
    assert outcomes == [("completed", True)] * 3


def points(observer: Remembering) -> Iterator[tuple[int, str, int, float | None]]:
    for metrics in observer.of(Metrics):
        for point in metrics.points:
            yield point.replicate, point.name, point.step, point.value


@pytest.mark.parametrize("trials", [1, 3, 8])
@pytest.mark.parametrize("most", [1, 2, 5, 8, 16, 100])
def test_every_replicate_is_in_one_pass_of_equally_many_of_each_seed(trials: int, most: int):
    generator = torch.Generator().manual_seed(trials)
    for _ in range(10):
        alive = torch.rand(5 * trials, generator=generator) < 0.6
        live = arranged([int(r) for r in alive.nonzero()], trials)
        seeds = list(dict.fromkeys(replicate // trials for replicate in live))
        rows = count()
        for cut in cuts(live, trials, most):
            own = live[cut.rows]
            assert [next(rows) for _ in own] == list(range(cut.rows.start, cut.rows.stop))
            assert len(own) <= most
            each = [sum(r // trials == seed for r in own) for seed in seeds[cut.seeds]]
            assert len(set(each)) == 1
            assert sum(each) == len(own)
        assert next(rows) == len(live)
