"""Maths: an answer has the value of the right one, by math-verify."""

import atexit
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import MeanMetric, Needs, registered
from adaptlab.text.maths_process import PACKAGE, MathsProcess, installed_version


@registered
class Maths(MeanMetric):
    """The share of decoded answers with the value of the right one.

    The last expression of an answer counts, as text or LaTeX: 1/2 is 0.5, and x = 5 is 5. 72 %
    equals both 72 and 0.72. 1e3 and digits of full width are not read. An answer that takes more
    than 5 seconds is wrong. An item's statistics are whether it is right, has no expression, or
    took too long.
    """

    name: ClassVar[str] = "maths"
    title: ClassVar[str] = "Maths"
    meaning: ClassVar[str] = (
        "the share of answers with the mathematical value of the right one, by math-verify, for "
        "tasks with this metric; workers need adaptlab[maths]"
    )
    needs: ClassVar[Needs] = "answers"
    columns: ClassVar[int] = 3

    @property
    def wanted(self) -> str:
        return "have an expression that math-verify reads"

    def reads_answer(self, right: str) -> bool:
        return _process().outcome(right, right) not in ("no_reference", "timed_out", "unread")

    def signature(self) -> str:
        return f"{self.version}|{PACKAGE}|{installed_version()}"

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        found = _process().outcome(right, given)
        if found == "no_reference":
            raise ValueError(f"{self.title} cannot read the right answer {right[:64]!r}.")
        return tuple(float(found == one) for one in ("right", "unread", "timed_out"))

    def caution(self, statistics: NDArray[np.float64]) -> str | None:
        _, unread, slow = (int(count) for count in statistics.sum(axis=0))
        if not unread and not slow:
            return None
        return (
            f"Of {len(statistics):,} answers, {unread:,} have no expression and {slow:,} took too "
            "long to compare. They count as wrong."
        )


@cache
def _process() -> MathsProcess:
    process = MathsProcess()
    atexit.register(process.close)
    return process
