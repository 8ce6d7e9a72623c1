"""A process that compares mathematical answers by math-verify.

It reads a line of JSON with two texts, the right and the given one, and writes one with the
outcome: `right`, `wrong`, `unread` (the given one), or `no_reference`. Its argument is the limit on
the processor's seconds for one pair, above which the kernel ends it. It imports nothing of
adaptlab, so it starts fast.
"""

import importlib
import json
import resource
import sys
import warnings
from functools import lru_cache
from typing import Any

MOST_BYTES = 2**31
MOST_REMEMBERED = 1024


@lru_cache(MOST_REMEMBERED)
def parsed(text: str) -> tuple[object, ...]:
    """Return the expressions in a text, none if it has none."""
    return tuple(_library().parse(text, parsing_timeout=None))


def outcome(right: str, given: str) -> str:
    """Return the outcome for a pair."""
    reference = parsed(right)
    if not reference:
        return "no_reference"
    answer = parsed(given)
    if not answer:
        return "unread"
    # Comparison is not symmetric: the right answer comes first.
    is_right = _library().verify([*reference], [*answer], timeout_seconds=None)
    return "right" if is_right else "wrong"


def limited(right: str, given: str, seconds: int) -> str:
    """Return the outcome for a pair within the limits.

    What is too deep or too large for the library cannot be read.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = int(usage.ru_utime + usage.ru_stime)
    resource.setrlimit(resource.RLIMIT_CPU, (used + seconds + 1, resource.RLIM_INFINITY))
    try:
        return outcome(right, given)
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError):
        return "unread"


def serve(seconds: int) -> None:
    """Answer lines from stdin until it ends."""
    warnings.simplefilter("ignore")  # nobody reads them
    _library()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    _write("ready")
    for line in sys.stdin:
        right, given = json.loads(line)
        _write(limited(right, given, seconds))


def _library() -> Any:
    """Return math-verify, which has no types."""
    return importlib.import_module("math_verify")


def _write(outcome: str) -> None:
    sys.stdout.write(json.dumps(outcome) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
