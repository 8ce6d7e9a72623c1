"""Lanes: threads that compute shares of the replicates side by side.

Replicates never mix, so the lanes of a CPU need not wait for each other, unlike the threads of one
product, which meet at the end of each of a step's few hundred operations.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from adaptlab.engine.plan import Plan

Share = TypeVar("Share")
Result = TypeVar("Result")

MOST_LANES = 4
"""More would wait for the interpreter, which one thread at a time has."""
SPEEDUP = 0.7
"""Exponent of the speed of one pass by its threads: two compute it 1.6 times as fast as one."""
LEAST_OPERATIONS = 8e7
"""Operations of a lane's products in a step, below which starting them twice takes more time than
two lanes save."""


class Lanes:
    """Threads that each compute the passes of one share, one after the other.

    `threads` is how many threads all lanes together may use, `most` how many lanes there may be.
    """

    def __init__(self, threads: int, most: int = MOST_LANES) -> None:
        self._threads, self._most = threads, most
        self._pools: dict[int, ThreadPoolExecutor] = {}

    def count(self, plan: Plan, replicates: int, at_once: int, tokens: int) -> int:
        """Return how many lanes a step of `replicates` takes, at least one.

        Args:
            plan: the job's plan.
            replicates: those that are still trained.
            at_once: how many of them fit in memory together.
            tokens: tokens of a replicate's batch.
        """
        if plan.device.type != "cpu":
            return 1
        each = 3 * tokens * plan.shape.forward_flops_per_token()

        def steps(lanes: int) -> float:
            return -(-replicates // lanes) / (self._threads // lanes) ** SPEEDUP

        most = min(self._most, self._threads, replicates, at_once)
        worth = (n for n in range(2, most + 1) if replicates // n * each >= LEAST_OPERATIONS)
        return min((1, *worth), key=steps)

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
