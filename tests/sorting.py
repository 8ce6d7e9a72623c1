"""Sort tests into those of `make test` and those left to `make test-all`.

`@pytest.mark.long("why")` leaves a test to `make test-all`. With `but=3` the first three of its
cases stay in `make test`, and with `but="each"` so many that every value of every parameter is in
one of them (each-choice coverage, Ammann and Offutt 1994).
"""

import inspect
import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence

import pytest

PARTS = ("short", "long")
EACH = "each"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options by which the Makefile chooses."""
    parser.addoption("--part", choices=PARTS, help="run the short or the long tests alone")
    parser.addoption("--pictures", metavar="FOLDER", help="walk at full size, with pictures there")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each process of tests begin with another part of a folder.

    Modules that were never collected are compiled by the first process that meets them, and read by
    the others. In one order, all processes would compile all of them.
    """
    report = yield
    process = os.environ.get("PYTEST_XDIST_WORKER")
    if process is not None and isinstance(collector, pytest.Dir):
        number = int(process.removeprefix("gw"))
        first = len(report.result) * number // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        report.result = [*report.result[first:], *report.result[:first]]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no cases of a test that is of the other part as a whole.

    There are 7,000 in `make test`, and each process of tests would make them all.
    """
    part = collector.config.getoption("--part")
    if part is None or not inspect.isfunction(obj):
        return None
    own = getattr(obj, "pytestmark", ())
    marks = [*(mark for mark in own if mark.name == "long"), *collector.iter_markers("long")]
    is_left = marks and "but" not in marks[0].kwargs
    return [] if (is_left if part == "short" else not marks) else None


def keep_part(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the other part, if one was asked for."""
    part = config.getoption("--part")
    if part is None:
        return
    long = {id(item) for item in long_tests(items)}
    other = [item for item in items if (id(item) in long) == (part == "short")]
    config.hook.pytest_deselected(items=other)
    items[:] = [item for item in items if (id(item) in long) == (part == "long")]


def long_tests(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the tests that are left to `make test-all`."""
    cases: dict[tuple[object, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long") is not None:
            cases[item.parent, getattr(item, "originalname", item.name)].append(item)
    for of_one in cases.values():
        kept = {id(item) for item in _kept(of_one)}
        yield from (item for item in of_one if id(item) not in kept)


def _kept(cases: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
    marker = cases[0].get_closest_marker("long")
    assert marker is not None
    but = marker.kwargs.get("but", 0)
    return _with_each(cases) if but == EACH else cases[:but]


def _with_each(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return few cases that have every value of every parameter."""
    values = {id(item): set(_values(item)) for item in cases}
    missing = set().union(*values.values())
    kept: list[pytest.Item] = []
    while missing:
        best = max(cases, key=lambda item: len(values[id(item)] & missing))
        missing -= values[id(best)]
        kept.append(best)
    return kept


def _values(item: pytest.Item) -> Iterator[tuple[str, object]]:
    """Yield the parameters of a case with their values, or the objects' ids."""
    spec = getattr(item, "callspec", None)
    for name, value in spec.params.items() if spec else ():
        yield name, value if isinstance(value, str | int | float) else id(value)
