"""Mathematical answers, compared in a process that can be ended."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from adaptlab.errors import BadDataset
from adaptlab.metrics import maths
from adaptlab.plugins.metric import METRICS
from adaptlab.text import maths_process
from adaptlab.text.maths_process import MathsProcess

METRIC = METRICS.get("maths")
TOWER = "$9^{9^{9^{9^9}}}$"
RIGHT, WRONG, UNREAD, SLOW = (1, 0, 0), (0, 0, 0), (0, 1, 0), (0, 0, 1)


@pytest.fixture(scope="module")
def process() -> Iterator[MathsProcess]:
    process = MathsProcess(cpu_seconds=0)  # the kernel counts whole seconds, so it has one
    yield process
    process.close()


@pytest.mark.parametrize(
    ("given", "right", "expected"),
    [
        ("0.5", "1/2", RIGHT),
        ("so x = 5", "5", RIGHT),
        (r"It is $\boxed{1,234}$.", "1234", RIGHT),
        ("$1 + x^2$", "$x^2 + 1$", RIGHT),
        ("5 or 6", "5", WRONG),
        ("I do not know", "5", UNREAD),
        ("1e3", "1000", WRONG),
        ("１２", "12", UNREAD),
    ],
)
def test_values_are_compared(given: str, right: str, expected: tuple[int, ...]) -> None:
    assert METRIC.of_answer(given, right) == expected


@pytest.mark.parametrize("right", ["72", "0.72"])
def test_a_percentage_equals_both_numbers_as_documented(right: str) -> None:
    assert METRIC.of_answer("72 %", right) == RIGHT


def test_a_right_answer_without_an_expression_is_refused() -> None:
    assert not METRIC.reads_answer("none of them")
    assert "have an expression that math-verify reads" in METRIC.unread("it")
    with pytest.raises(ValueError, match="Maths cannot read the right answer"):
        METRIC.of_answer("5", "none of them")


def test_an_answer_that_hangs_counts_as_wrong_and_not_as_missing(
    process: MathsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is compared as before."""
    monkeypatch.setattr(maths, "_process", lambda: process)
    rows = np.array([METRIC.of_answer(given, "5") for given in (TOWER, "5")])
    assert [*map(tuple, rows.tolist())] == [SLOW, RIGHT]
    assert METRIC.value(rows) == 0.5
    caution = METRIC.caution(rows)
    assert caution is not None
    assert "1 took too long" in caution


@pytest.mark.parametrize("bomb", ["(" * 5000 + "1" + ")" * 5000, r"$\frac{1}{" * 200 + "2"])
def test_deep_expressions_end(bomb: str, process: MathsProcess) -> None:
    assert process.outcome("5", bomb) in ("unread", "wrong", "timed_out")
    assert process.outcome("5", "5") == "right"


def test_a_process_that_says_nothing_is_ended() -> None:
    process = MathsProcess(wall_seconds=0)
    assert process.outcome("5", TOWER) == "timed_out"
    assert process.outcome("5", TOWER) == "timed_out"  # by another process
    process.close()


def test_it_works_in_threads_and_leaves_the_alarm_alone(process: MathsProcess) -> None:
    rung = threading.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: rung.set())
    signal.setitimer(signal.ITIMER_REAL, 3600)
    try:
        with ThreadPoolExecutor(2) as pool:
            pairs = [("1/2", "0.5"), ("1/3", "0.5")] * 4
            found = [*pool.map(lambda pair: process.outcome(*pair), pairs)]
        assert found == ["right", "wrong"] * 4
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        assert 0 < left <= 3600
        assert not rung.is_set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maths_process, "PACKAGE", "no-such-package")
    with pytest.raises(BadDataset, match=r"Install adaptlab\[maths\]"):
        MathsProcess().outcome("5", "5")
