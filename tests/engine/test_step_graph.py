"""What a step graph does around a recording, with stand-ins for CUDA's.

Real recordings are in `tests/gpu`.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.training import step_graph
from adaptlab.engine.training.allocate import Gradient
from adaptlab.engine.training.step_graph import StepGraph

CANNOT = "operation not permitted when stream is capturing"
NO_MEMORY = "CUDA out of memory. Tried to allocate 2 GiB"


class Recording:
    """Repeats the recorded computation, on the tensors that it read."""

    work: ClassVar[list[Callable[[], None]]] = []
    recorded: ClassVar[list[Callable[[], None]]] = []

    def replay(self) -> None:
        self.recorded[-1]()


class Cuda:
    """A computation that notes its calls, and the recording of it."""

    def __init__(self, fault: str | None = None) -> None:
        self.fault, self.calls, self.recording = fault, 0, False

    def compute(self, items: Items, step: Tensor) -> tuple[Gradient, Tensor]:
        if self.recording and self.fault is not None:
            raise RuntimeError(self.fault)
        self.calls += 1
        gradient, losses = torch.empty(2, 3), torch.empty(2)

        def work() -> None:
            gradient.fill_(float(items.tokens.sum()))
            losses.fill_(float(step + items.targets.sum()))

        work()
        Recording.work.append(work)
        return Gradient((gradient,)), losses

    @contextmanager
    def graph(self, *_: object, **__: object) -> Iterator[None]:
        self.recording = True
        try:
            yield
            Recording.recorded.append(Recording.work[-1])
        finally:
            self.recording = False


def items(number: int) -> Items:
    return Items(torch.full((1, 2, 3), number), torch.full((1, 2, 1), number))


@pytest.fixture
def cuda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cuda:
    stand_in = Cuda(getattr(request, "param", None))
    stream = SimpleNamespace(wait_stream=lambda _: None)
    monkeypatch.setattr(step_graph, "_stream", lambda _: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", stand_in.graph)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Recording)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(Tensor, "record_stream", lambda *_: None)
    return stand_in


def asked(graph: StepGraph, cuda: Cuda, step: int) -> tuple[float, float]:
    gradient, losses = graph(cuda.compute, items(step), step)
    assert gradient is not None
    return float(gradient.flat[0, 0]), float(losses[0])


def expected(step: int) -> tuple[float, float]:
    return 6.0 * step, 3.0 * step


def test_later_steps_replay_with_their_own_items_and_number(cuda: Cuda) -> None:
    graph = StepGraph()
    assert [asked(graph, cuda, step) for step in range(1, 5)] == [*map(expected, range(1, 5))]
    assert graph.is_recorded
    assert cuda.calls == 2, "computed once and recorded once"


def test_the_items_that_were_recorded_stay_as_they_are(cuda: Cuda) -> None:
    graph, second = StepGraph(), items(2)
    asked(graph, cuda, 1)
    graph(cuda.compute, second, 2)
    asked(graph, cuda, 3)
    assert torch.equal(second.tokens, items(2).tokens)


def test_the_results_of_the_first_step_are_not_kept_beside_those_of_the_recording(
    cuda: Cuda,
) -> None:
    alive: list[int] = []
    held: list[weakref.ref[Tensor]] = []

    def compute(items: Items, step: Tensor) -> tuple[Gradient, Tensor]:
        alive.append(sum(one() is not None for one in held))
        results = cuda.compute(items, step)
        held.append(weakref.ref(results[0].flat))
        Recording.work.clear()  # which would keep them
        Recording.work.append(lambda: None)
        return results

    graph = StepGraph()
    graph(compute, items(1), 1)
    graph(compute, items(2), 2)
    assert alive == [0, 0]


def test_only_a_replay_moves_the_weights(cuda: Cuda) -> None:
    graph, moved = StepGraph(), list[float]()

    def whole(items: Items, step: Tensor) -> tuple[None, Tensor]:
        gradient, losses = cuda.compute(items, step)
        work = Recording.work[-1]

        def with_move() -> None:
            work()
            moved.append(float(gradient.flat[0, 0]))

        Recording.work.append(with_move)
        return None, losses

    results = [graph(cuda.compute, items(step), step, whole) for step in range(1, 4)]
    assert [gradient is None for gradient, _ in results] == [False, True, True]
    assert moved == [12.0, 18.0]
    gradient, _ = graph(cuda.compute, of_length(4, 5, 0), 4, whole)
    assert gradient is not None, "not recorded, so the caller moves the weights"


@pytest.mark.parametrize("cuda", [CANNOT], indirect=True)
def test_what_cannot_be_recorded_is_computed_at_every_step(cuda: Cuda) -> None:
    graph = StepGraph()
    assert [asked(graph, cuda, step) for step in range(1, 5)] == [*map(expected, range(1, 5))]
    assert not graph.is_recorded
    assert graph.fault == CANNOT
    assert cuda.calls == 4


@pytest.mark.parametrize("cuda", [NO_MEMORY], indirect=True)
def test_a_recording_without_memory_is_the_descents_to_handle(cuda: Cuda) -> None:
    graph = StepGraph()
    asked(graph, cuda, 1)
    with pytest.raises(RuntimeError, match="out of memory"):
        asked(graph, cuda, 2)


def of_length(number: int, length: int, first: int) -> Items:
    tokens, targets = torch.full((1, 2, length), number), torch.full((1, 2, 1), number)
    return Items(tokens, targets, None, torch.zeros_like(targets), first, 1)


@pytest.mark.parametrize("other", [of_length(2, 4, 0), of_length(2, 3, 1)])
def test_items_of_another_length_are_computed_without_the_recording(
    cuda: Cuda, other: Items
) -> None:
    graph = StepGraph()
    graph(cuda.compute, of_length(1, 3, 0), 1)
    graph(cuda.compute, of_length(1, 3, 0), 2)
    gradient, _ = graph(cuda.compute, other, 3)
    assert gradient is not None
    assert float(gradient.flat[0, 0]) == float(other.tokens.sum())
    assert cuda.calls == 3, "computed, recorded, and computed again"
    gradient, _ = graph(cuda.compute, of_length(3, 3, 0), 4)
    assert gradient is not None
    assert float(gradient.flat[0, 0]) == 18.0
    assert cuda.calls == 3, "replayed"
