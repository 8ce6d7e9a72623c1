"""JSON match: an answer is JSON and has the right value."""

from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import MeanMetric, Needs, registered
from adaptlab.records.answer_forms import AnswerForm, NotPlainJson, json_in


@registered
class Json(MeanMetric):
    """The share of decoded answers whose JSON value equals the right one.

    The order of members, spaces and the writing of numbers do not count. Text with a repeated key
    or with NaN is no JSON here. An item's statistics are whether the value is right, and whether
    the answer is JSON.
    """

    name: ClassVar[str] = "json"
    title: ClassVar[str] = "JSON match"
    meaning: ClassVar[str] = (
        "the share of answers that are JSON and have the value of the right one, for tasks with "
        "this metric"
    )
    needs: ClassVar[Needs] = "answers"
    columns: ClassVar[int] = 2
    reads: ClassVar[AnswerForm | None] = "json"

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        expected = json_in(right)
        try:
            return float(_equal(json_in(given), expected)), 1.0
        except (NotPlainJson, RecursionError):
            return 0.0, 0.0

    def caution(self, statistics: NDArray[np.float64]) -> str | None:
        bad = len(statistics) - int(statistics[:, 1].sum())
        if not bad:
            return None
        return f"{bad:,} of {len(statistics):,} answers are no JSON, and count as wrong."


def _equal(first: object, second: object) -> bool:
    """Return True if two JSON values are equal; true is not 1."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        ours, theirs = cast("dict[str, object]", first), cast("dict[str, object]", second)
        return ours.keys() == theirs.keys() and all(_equal(ours[key], theirs[key]) for key in ours)
    if isinstance(first, list):
        items, others = cast("list[object]", first), cast("list[object]", second)
        return len(items) == len(others) and all(map(_equal, items, others))
    return first == second
