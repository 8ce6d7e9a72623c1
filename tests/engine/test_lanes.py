"""Lanes give what one thread gives, and end with the training."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.engine.making import (
    SMALL,
    Remembering,
    adaptation,
    base_tensors,
    bert,
    perturbed,
    qwen3,
    trainables,
)
from torch import Tensor

from adaptlab.engine.models import step_threads as lanes
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.models.step_threads import ALONE, Lanes, LaneShare
from adaptlab.engine.training import descent
from adaptlab.engine.training.passes import arranged, seeds_of, shares
from adaptlab.engine.training.train import Training
from adaptlab.families.transformers import Transformers
from adaptlab.plugins.family import Family

FAMILY = SMALL.model_copy(update={"dropout": 0.2})
METHODS = [
    {"name": "lora", "rank": 2},
    {"name": "prefix_tuning", "length": 2},
    {"name": "full_finetuning"},
    {"name": "autoprompt", "length": 2, "candidates": 2},
]


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads for torch, and lanes for whatever is small."""
    monkeypatch.setattr(lanes, "LEAST_OPERATIONS", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def planned(
    method: object = METHODS[0],
    trials: int = 3,
    family: Family = FAMILY,
    seeds: int = 2,
    **changed: object,
) -> Plan:
    training = {"precision": "float64", "steps": 4, "batch_size": 6, "validations": 2, **changed}
    return adaptation(
        method,  # pyright: ignore[reportArgumentType] - a JSON object
        family=family,
        base_replicates=seeds,
        tuning={"trials": trials},
        training=training,
    )


class Watching:
    """The threads that compute, and the replicates of each pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refused: int = 100) -> None:
        self.names: set[str] = set()
        self.sizes: list[int] = []
        answer = Model.logits

        def logits(model: Model, *given: object, **named: object) -> Tensor:
            self.names.add(threading.current_thread().name)
            self.sizes.append(max(len(tensor) for tensor in model.trained.values()))
            if self.sizes[-1] > refused:
                raise MemoryError
            return answer(model, *given, **named)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(Model, "logits", logits)

    @property
    def lanes(self) -> set[str]:
        return {name for name in self.names if name.startswith("lane")}


def one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "Lanes", lambda threads: Lanes(threads, most=1))


def train(plan: Plan, scratch: Path) -> tuple[Tensor, Training]:
    base = base_tensors(plan, len(plan.spec.seeds))
    allocated = trainables(plan, base)
    for name, moved in perturbed(plan, allocated.tensors).items():
        allocated.tensors[name].data.copy_(moved)
    training = Training(plan, Model(plan, base, allocated.tensors), allocated, Remembering())
    training.run(scratch)
    return allocated.flat, training


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m["name"])
def test_two_lanes_give_what_one_thread_gives(
    method: dict[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    seen = Watching(monkeypatch)
    side_by_side, _ = train(planned(method), tmp_path)
    assert len(seen.lanes) == 2
    seen.names.clear()
    one_lane(monkeypatch)
    alone, _ = train(planned(method), tmp_path)
    assert seen.names == {threading.current_thread().name}
    assert torch.allclose(side_by_side, alone, rtol=0, atol=1e-10)


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m["name"])
@pytest.mark.parametrize(("seeds", "accumulation"), [(1, 1), (3, 1), (1, 3)])
def test_lanes_that_share_the_items_give_what_one_thread_gives(
    method: dict[str, object],
    seeds: int,
    accumulation: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    seen = Watching(monkeypatch)
    plan = planned(method, trials=1, seeds=seeds, accumulation=accumulation)
    side_by_side, training = train(plan, tmp_path)
    assert len(seen.lanes) == 2
    assert set(seen.sizes) == {seeds}
    assert training.division.passes == 1
    one_lane(monkeypatch)
    alone, _ = train(plan, tmp_path)
    assert torch.allclose(side_by_side, alone, rtol=0, atol=1e-10)


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("family", [qwen3(8, 4, 8), bert(8, 2, 8)], ids=lambda f: f.architecture)
def test_a_model_of_the_library_is_computed_in_lanes(
    family: Transformers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    seen = Watching(monkeypatch)
    side_by_side, _ = train(planned(family=family), tmp_path)
    assert len(seen.lanes) == 2
    one_lane(monkeypatch)
    alone, _ = train(planned(family=family), tmp_path)
    assert torch.allclose(side_by_side, alone, rtol=0, atol=1e-10)


def test_replicates_that_are_left_out_leave_lanes_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    halving = {"trials": 3, "halving": {"rungs": 1, "keep": 0.33}}
    seen = Watching(monkeypatch)
    training = {"precision": "float64", "steps": 6, "batch_size": 6}
    plan = adaptation(
        METHODS[0],  # pyright: ignore[reportArgumentType]
        family=FAMILY,
        base_replicates=2,
        tuning=halving,
        training=training,
    )
    halved, _ = train(plan, tmp_path)
    assert seen.sizes[-1] == 1, "one trial of each of two seeds, one in each lane"
    one_lane(monkeypatch)
    alone, _ = train(plan, tmp_path)
    assert torch.allclose(halved, alone, rtol=0, atol=1e-10)


def test_the_same_training_has_the_same_bits_every_time(tmp_path: Path):
    first, _ = train(planned(METHODS[2]), tmp_path)
    for _ in range(3):
        assert torch.equal(train(planned(METHODS[2]), tmp_path)[0], first)


def test_the_threads_end_with_the_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    before = threading.active_count()
    train(planned(), tmp_path)
    assert threading.active_count() == before
    Watching(monkeypatch, refused=0)
    with pytest.raises(MemoryError):
        train(planned(), tmp_path)
    assert threading.active_count() == before


def test_where_memory_runs_out_both_lanes_are_halved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    whole, training = train(planned(trials=4), tmp_path)
    assert training.division.passes == 1
    seen = Watching(monkeypatch, refused=2)
    divided, training = train(planned(trials=4), tmp_path)
    assert max(seen.sizes) == 4
    assert max(seen.sizes[-8:]) == 2
    assert training.division.passes == 2
    assert torch.allclose(divided, whole, rtol=0, atol=1e-10)


def test_an_error_is_raised_once_every_lane_has_ended():
    ended: list[str] = []
    waiting = threading.Event()

    def work(part: str) -> None:
        if part == "fails":
            waiting.set()
            raise RuntimeError("a bug at heart")
        assert waiting.wait(10)
        ended.append(part)

    some = Lanes(2)
    with pytest.raises(RuntimeError, match="a bug at heart"):
        some.each([["fails", "never"], ["slow"]], work)
    some.close()
    assert ended == ["slow"]


def test_lanes_compute_with_one_thread_each_and_keep_no_graph_that_nobody_wants():
    some = Lanes(2)

    def work(part: int) -> tuple[int, int, bool]:
        return part, torch.get_num_threads(), torch.is_grad_enabled()

    with torch.no_grad():
        assert some.each([[1, 2], [3]], work) == [(1, 1, False), (2, 1, False), (3, 1, False)]
    assert [grad for *_, grad in some.each([[1], [2]], work)] == [True, True]
    some.close()
    assert torch.get_num_threads() == 2, "of the thread that asks"


@pytest.mark.parametrize(
    ("threads", "replicates", "at_once", "items", "expected"),
    [
        (1, 10, 10, 6, ALONE),
        (2, 10, 10, 6, LaneShare(2)),
        (2, 3, 3, 6, LaneShare(2, by_items=True)),  # two replicates would be in one lane
        (2, 1, 1, 6, LaneShare(2, by_items=True)),
        (2, 1, 1, 5, ALONE),
        (2, 3, 3, 5, ALONE),  # two steps in two lanes, 3/1.6 by two threads
        (2, 5, 5, 5, LaneShare(2)),
        (2, 10, 1, 5, ALONE),
        (8, 3, 3, 5, LaneShare(3)),
        (16, 40, 40, 6, LaneShare(4)),
    ],
)
def test_lanes_share_a_step_as_takes_the_least_time(
    threads: int, replicates: int, at_once: int, items: int, expected: LaneShare
):
    found = Lanes(threads).division(planned(), replicates, at_once, (items, 100))
    assert found == expected


def test_small_steps_and_sums_of_large_gradients_are_not_shared(monkeypatch: pytest.MonkeyPatch):
    plan = planned(METHODS[2])
    monkeypatch.setattr(lanes, "LEAST_OPERATIONS", 8e7)
    assert Lanes(2).division(plan, 10, 10, (6, 100)) == ALONE
    assert Lanes(2).division(plan, 10, 10, (6, 10**6)) == LaneShare(2)
    assert Lanes(2).division(plan, 1, 1, (6, 10**6)) == LaneShare(2, by_items=True)
    monkeypatch.setattr(lanes, "MOST_ADDED", 1000)
    assert Lanes(2).division(plan, 1, 1, (6, 10**6)) == ALONE


@pytest.mark.parametrize("trials", [1, 3, 8])
@pytest.mark.parametrize("most", [2, 5, 100])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_lanes_share_the_replicates_evenly(trials: int, most: int, count: int):
    generator = torch.Generator().manual_seed(trials)
    for _ in range(10):
        alive = torch.rand(5 * trials, generator=generator) < 0.8
        live = arranged([int(r) for r in alive.nonzero()], trials)
        used = min(count, most, len(live))
        divided = shares(live, trials, most, used)
        sizes = [sum(cut.replicates for cut in own) for own in divided]
        assert (len(sizes), sum(sizes)) == (used, len(live))
        assert max(sizes) - min(sizes) <= 1
        assert sum(max(cut.replicates for cut in own) for own in divided) <= max(most, used)
        row, seeds = 0, seeds_of(live, trials)
        for cut in (cut for own in divided for cut in own):
            assert cut.rows.start == row
            row = cut.rows.stop
            held = [r // trials for r in live[cut.rows]]
            each = [held.count(seed) for seed in seeds[cut.seeds]]
            assert (set(each), sum(each)) == ({cut.replicates // len(each)}, cut.replicates)
