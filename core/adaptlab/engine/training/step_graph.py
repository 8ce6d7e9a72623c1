"""CUDA graphs: a step's kernels, started by one call.

On a GPU a small step is a few hundred kernels that take microseconds each, and starting them one by
one takes longer than computing them. A graph is recorded once and replayed with the items of every
later step copied to where its kernels read. It runs the same kernels, so the results are the same.
Graphs are used if requested.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.kernels.counter import constant
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.training.allocate import Gradient
from adaptlab.errors import is_out_of_memory

Results = tuple[Gradient | None, Float[Tensor, "R"]]
"""The gradient, None where the weights have been moved already, and the losses."""
Computation = Callable[[Items, Int[Tensor, ""]], Results]
"""Computes a step of items, given its number."""


@dataclass
class _Use:
    graphs: bool = False


_USE = _Use()


def use_graphs(*, use: bool = True) -> None:
    """Let passes that are made from now on record their steps, or not."""
    _USE.graphs = use


def graphs_are_used() -> bool:
    """Return True after `use_graphs`."""
    return _USE.graphs


class GraphPool:
    """The memory of recordings that are replayed one after the other.

    What one leaves free is used by the next, so that several passes of a step need no more memory
    than the largest, besides their results.
    """

    @cached_property
    def handle(self) -> Any:  # torch keeps its type to itself
        """The handle by which CUDA's allocator knows the pool."""
        return torch.cuda.graph_pool_handle()


@dataclass
class StepGraph:
    """A computation on a GPU that is replayed once it is recorded.

    The first call computes without a graph, which also prepares the libraries for a recording. The
    second records, and replays like all later ones: by then the results of the first are freed. A
    computation that waits for the device, such as one that chooses experts, cannot be recorded and
    is computed as before; `fault` is then the reason.
    """

    pool: GraphPool = field(default_factory=GraphPool)
    fault: str | None = None
    _is_warm: bool = False
    _graph: torch.cuda.CUDAGraph | None = None
    _read: list[Tensor] = field(default_factory=list[Tensor])
    _span: slice | None = None
    _results: Results | None = None

    @property
    def is_recorded(self) -> bool:
        """True once later calls replay."""
        return self._graph is not None

    def __call__(
        self, compute: Computation, items: Items, step: int, whole: Computation | None = None
    ) -> Results:
        """Return the results of a step; they are overwritten by the next call.

        `whole` is what is recorded in place of `compute`, if it does more: it also moves the
        weights, so it is only ever replayed. Both are the same at every call. They are not kept, as
        their pass keeps this graph.
        """
        place = constant(step, items.tokens.device)
        if self.fault is not None:
            return compute(items, place)
        if not self._is_warm:
            return self._first(compute, items, place)
        if self._graph is None and not self._is_now_recorded(whole or compute, items, place):
            return compute(items, place)
        present = _tensors(items, place)
        if items.span != self._span or not _are_alike(present, self._read):
            return compute(items, place)  # items of other lengths than those recorded
        assert self._graph is not None
        assert self._results is not None
        for kept, new in zip(self._read, present, strict=True):
            kept.copy_(new)
        self._graph.replay()
        return self._results

    def _first(self, compute: Computation, items: Items, step: Tensor) -> Results:
        """Compute on the stream of recordings."""
        stream, present = _stream(step.device), torch.cuda.current_stream()
        stream.wait_stream(present)
        with torch.cuda.stream(stream):
            results = compute(items, step)
        present.wait_stream(stream)
        gradient, losses = results
        for result in (losses, *(gradient.parts if gradient is not None else ())):
            result.record_stream(present)
        self._is_warm = True
        return results

    def _is_now_recorded(self, compute: Computation, items: Items, step: Tensor) -> bool:
        """Record; return False if that is impossible."""
        try:
            self._record(compute, items.each(torch.clone), step)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self.fault, self._graph, self._results = str(error), None, None
        return self._graph is not None

    def _record(self, compute: Computation, items: Items, step: Tensor) -> None:
        graph = torch.cuda.CUDAGraph()
        # Other threads of the process may use the device meanwhile.
        with torch.cuda.graph(
            graph,
            pool=self.pool.handle,
            stream=_stream(step.device),
            capture_error_mode="thread_local",
        ):
            self._results = compute(items, step)
        self._graph, self._read, self._span = graph, _tensors(items, step), items.span


@cache  # one per device: the library of products keeps memory for every stream
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of all recordings on a device."""
    return torch.cuda.Stream(device)


def _are_alike(present: Sequence[Tensor], recorded: Sequence[Tensor]) -> bool:
    return [tensor.shape for tensor in present] == [tensor.shape for tensor in recorded]


def _tensors(items: Items, step: Tensor) -> list[Tensor]:
    """Return everything that differs between steps."""
    others = (items.counted, items.answer_rows, items.read)
    return [items.tokens, items.targets, *(t for t in others if t is not None), step]
