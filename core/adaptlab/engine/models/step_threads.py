"""Lanes: threads that compute shares of a step side by side.

Replicates never mix, so the lanes of a CPU need not wait for each other, unlike the threads of one
product, which meet at the end of each of a step's few hundred operations. Where replicates cannot
be shared evenly, lanes take parts of the batch of all replicates, and gradients are added.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

import torch

from adaptlab.engine.models.plan import Plan

Share = TypeVar("Share")
Result = TypeVar("Result")

MOST_LANES = 4
"""More would wait for the interpreter, which one thread at a time has."""
SPEEDUP = 0.7
"""Exponent of the speed of one pass by its threads: two compute it 1.6 times as fast as one."""
SUMS = 0.03
"""What adding the gradients of two halves of a batch takes, as a share of computing them."""
MOST_ADDED = 2**26
"""Scalars of gradients that are added at most, because each lane holds all of them: 256 MiB."""
LEAST_OPERATIONS = 8e7
"""Operations of a lane's products in a step, below which starting them in several lanes takes more
time than these save."""


@dataclass(frozen=True, slots=True)
class LaneShare:
    """What lanes share in a step: replicates or, `by_items`, items."""

    lanes: int = 1
    by_items: bool = False

    @property
    def of_replicates(self) -> int:
        """The lanes among which replicates are divided."""
        return 1 if self.by_items else self.lanes


ALONE = LaneShare()


class Lanes:
    """Threads that each compute the passes of one share, one after the other.

    `threads` is how many threads all lanes together may use, `most` how many lanes there may be.
    """

    def __init__(self, threads: int, most: int = MOST_LANES) -> None:
        self._threads, self._most = threads, most
        self._pools: dict[int, ThreadPoolExecutor] = {}

    def division(
        self, plan: Plan, replicates: int, at_once: int, batch: tuple[int, int]
    ) -> LaneShare:
        """Return how lanes share a step of `replicates`.

        Args:
            plan: the job's plan.
            replicates: those that are still trained.
            at_once: how many of them fit in memory together.
            batch: the items of a replicate's batch that are computed at once, and their tokens.
        """
        if plan.device.type != "cpu":
            return ALONE
        items, tokens = batch
        scalars = replicates * sum(shape.size for shape in plan.trained_shapes.values())
        work = 3 * replicates * tokens * plan.shape.forward_flops_per_token()

        def time(shared: LaneShare) -> float:
            each = (self._threads // shared.lanes) ** SPEEDUP
            if shared.by_items:
                return (1 + SUMS) * replicates / shared.lanes / each
            return -(-replicates // shared.lanes) / each

        most = min(self._most, self._threads)
        worth = [lanes for lanes in range(2, most + 1) if work / lanes >= LEAST_OPERATIONS]
        return min(
            (
                ALONE,
                *(LaneShare(lanes) for lanes in worth if lanes <= min(replicates, at_once)),
                *(
                    LaneShare(lanes, by_items=True)
                    for lanes in worth
                    if items % lanes == 0 and scalars <= MOST_ADDED
                ),
            ),
            key=time,
        )

    def each(
        self, shares: Sequence[Sequence[Share]], work: Callable[[Share], Result]
    ) -> list[Result]:
        """Return the results of `work` for all parts of all shares, in order.

        A lane computes one share. Raises the first error, once all lanes have ended.
        """
        if len(shares) == 1:
            return [work(part) for part in shares[0]]
        grad = torch.is_grad_enabled()

        def compute(share: Sequence[Share]) -> list[Result]:
            with torch.set_grad_enabled(grad):
                return [work(part) for part in share]

        started = [self._pool(len(shares)).submit(compute, share) for share in shares]
        wait(started)
        return [result for one in started for result in one.result()]

    def close(self) -> None:
        """End the threads."""
        for pool in self._pools.values():
            pool.shutdown()
        self._pools.clear()

    def _pool(self, lanes: int) -> ThreadPoolExecutor:
        """Return a thread per lane, each with its share of the processor."""
        if lanes not in self._pools:
            threads = max(1, self._threads // lanes)
            self._pools[lanes] = ThreadPoolExecutor(
                lanes, "lane", initializer=torch.set_num_threads, initargs=(threads,)
            )
        return self._pools[lanes]
