"""A few tests are run again if they failed while the machine stood still.

Some limits are what a test is about: a server's patience with slow clients, say. When the host
takes the processors away for seconds, such a test fails without anything being wrong. It may carry
`@pytest.mark.may_stand_still("why")`, and is then repeated at most `TIMES` times, on new fixtures,
those of the module and the session included. The summary names it, and in CI more than `MOST`
repetitions fail the session. Tests of leases, workers and chaos never carry the marker: a stall is
what the product must survive there.

A thread looks at the clock ten times a second. The machine stood still if the thread was kept from
that for longer than `LONG`, and not by work of this process, or if the host took one processor away
for as long within a second. A test that fails on a machine that moves is not repeated.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pytest
from _pytest.outcomes import OutcomeException
from _pytest.runner import runtestprotocol  # what other plug-ins that repeat tests build upon too

TICK = 0.1  # seconds between two looks
LONG = 0.5  # seconds
TIMES = 2
MOST = 3  # repetitions of all tests of a session that CI lets pass
MARKER = "may_stand_still"
NEVER = ("chaos", "worker")
"""Folders of which no test is repeated; nor is one of a file that names leases."""
STEAL = 8  # column of /proc/stat: time of a processor that the host gave to others
STOOD_STILL = "seconds in which the machine stood still"


class Watch:
    """A thread that measures how long nothing moved, while its block runs.

    Attributes:
        longest: the seconds that it was late at worst, or that the host had one processor for
            others within about one.
        lost: the seconds that it was late in all: what a limit of five may be exceeded by.
    """

    def __init__(self) -> None:
        self.longest = self.lost = 0.0
        self._at = self._worked = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        # From here on, not from when the thread comes to it: it may be the first that stands still.
        self._at, self._worked = time.monotonic(), time.process_time()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        is_over, stolen = False, deque([_stolen()], maxlen=round(1 / TICK) + 1)
        while not is_over:
            is_over = self._over.wait(TICK)
            at, worked = time.monotonic(), time.process_time()
            # Others of this process may have kept the interpreter: that is work, no standstill.
            late = at - self._at - TICK - (worked - self._worked)
            self._at, self._worked = at, worked
            stolen.append(_stolen())
            taken = [now - then for then, now in zip(stolen[0], stolen[-1], strict=False)]
            self.longest = max(self.longest, late, *taken)
            self.lost += max(late, 0.0)


def _stolen() -> Sequence[float]:
    """The seconds of each processor that the host gave to others.

    It is empty where the host does not count them.
    """
    try:
        with Path("/proc/stat").open() as told:
            lines = [line.split() for line in takewhile(lambda line: line.startswith("cpu"), told)]
        return [int(line[STEAL]) / os.sysconf("SC_CLK_TCK") for line in lines[1:]]
    except (OSError, IndexError, ValueError):
        return []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test, and again if it failed in a standstill."""
    if item.get_closest_marker(MARKER) is None:
        return None  # pytest runs it
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports, still = _run(item, nextitem)
    for _ in range(TIMES):
        if still < LONG or not any(report.failed for report in reports):
            break
        item.user_properties.append((STOOD_STILL, f"{still:.1f}"))
        _end_fixtures(item)
        reports, still = _run(item, nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _run(item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], float]:
    """Return how a test went, and for how long the machine stood still."""
    with Watch() as watch:
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    return reports, watch.longest


def _end_fixtures(item: pytest.Item) -> None:
    """End the fixtures of module and session too; errors are raised later."""
    with suppress(Exception, OutcomeException, BaseExceptionGroup):  # one may not survive its end
        item.session._setupstate.teardown_exact(None)  # pyright: ignore[reportPrivateUsage] - as above


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a marked test that has no reason or must never be repeated."""
    for marker in item.iter_markers(MARKER):
        if not (marker.args and str(marker.args[0]).strip()):
            pytest.fail(f"{MARKER} needs a reason")
        if item.path.parent.name in NEVER or "lease" in item.path.stem:
            pytest.fail("never repeated here")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session of CI with more than `MOST` repetitions."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and len(_repetitions(reporter)) > MOST and is_ci():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that were run again."""
    repetitions = _repetitions(terminalreporter)
    for test, seconds in repetitions:
        why = f"failed while the machine stood still for {seconds} s"
        terminalreporter.write_line(f"RUN AGAIN {test}: {why}")
    if len(repetitions) > MOST and is_ci():
        told = f"{len(repetitions)} repetitions; CI allows {MOST}: find what makes these tests fail"
        terminalreporter.write_line(told, red=True)


def is_ci() -> bool:
    """Return True if CI runs the tests."""
    return os.environ.get("CI") == "true"


def _repetitions(terminalreporter: pytest.TerminalReporter) -> list[tuple[str, str]]:
    """The test and the seconds of standstill of every repetition."""
    reports = [
        report
        for of_a_kind in terminalreporter.stats.values()
        for report in of_a_kind
        if getattr(report, "when", None) == "teardown"
    ]
    return [
        (report.nodeid, seconds)
        for report in reports
        for name, seconds in report.user_properties
        if name == STOOD_STILL
    ]
