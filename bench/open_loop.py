"""Requests at a steady rate, timed from when each was due."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

Send = Callable[[int], object]


def latencies(connections: Sequence[Send], rate: float, count: int) -> list[float]:
    """Return the seconds from each request's due time to its answer.

    A request that is sent late, because all connections are busy, has waited since it was due, as
    for an independent client.

    Args:
        connections: each sends the request of a number and waits for the answer.
        rate: requests a second.
        count: of requests.
    """
    taken = [0.0] * count
    numbers = _Turn(iter(range(count)))
    failures: list[BaseException] = []
    start = time.perf_counter() + 0.1

    def serve(send: Send) -> None:
        try:
            for number in numbers:
                due = start + number / rate
                time.sleep(max(0.0, due - time.perf_counter()))
                send(number)
                taken[number] = time.perf_counter() - due
        except BaseException as error:  # noqa: BLE001 - re-raised for the caller
            failures.append(error)

    threads = [threading.Thread(target=serve, args=[send]) for send in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return taken


class _Turn:
    """A counter that gives each number to one thread."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._numbers)
