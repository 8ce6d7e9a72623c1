"""Mutated specs, sent to the application.

Run `python -m tests.security.mutate_specs --count 20000`.

Whatever a spec holds is accepted or refused with a problem document, never with 500, in a second.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from fastapi.testclient import TestClient
from tests.security.serving import a_server, asking
from tests.security.spec_mutations import requests

LARGEST_ANSWER = 2**20
EXPECTED = frozenset({200, 400, 404, 409, 413, 422})


@dataclass
class Findings:
    """What was answered, the worst cases, and what should not have been."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    slowest: float = 0.0
    slowest_on_processor: float = 0.0
    faults: list[str] = field(default_factory=list[str])


def run(client: TestClient, count: int, seed: int) -> Findings:
    """Send so many specs."""
    found = Findings()
    for address, body in islice(requests(seed), count):
        begin, on_processor = time.perf_counter(), time.process_time()
        answer = client.post(address, content=body, headers={"Content-Type": "application/json"})
        took = time.process_time() - on_processor
        found.slowest = max(found.slowest, time.perf_counter() - begin)
        found.slowest_on_processor = max(found.slowest_on_processor, took)
        found.outcomes[f"{address.partition('?')[0]}: {answer.status_code}"] += 1
        if answer.status_code not in EXPECTED:
            found.faults.append(f"{answer.status_code} to {address} {body.decode('latin-1')}")
        elif len(answer.content) > LARGEST_ANSWER:
            found.faults.append(f"{len(answer.content)} bytes to {address} {body[:500]!r}")
        elif answer.status_code != 200:
            assert answer.headers["content-type"] == "application/problem+json"
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with a_server() as (settings, sessions), asking(settings, sessions) as client:
        begin = time.perf_counter()
        found = run(client, given.count, given.seed)
        seconds = time.perf_counter() - begin
    for outcome, times in sorted(found.outcomes.items()):
        print(f"{outcome:<28} {times:>7}")
    for fault in found.faults[:50]:
        print(fault[:1500])
    faults = len(found.faults)
    print(f"{given.count} specs, seed {given.seed}: {faults} faults, {seconds:.0f} s in all")
    clock, processor = 1000 * found.slowest, 1000 * found.slowest_on_processor
    print(
        f"the slowest took {clock:.0f} ms, {processor:.0f} ms of the processor (at most a second)"
    )
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
