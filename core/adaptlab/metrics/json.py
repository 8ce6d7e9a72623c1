"""JSON match: an answer is JSON and has the right value."""

from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from adaptlab.plugins.metric import MeanMetric, Metric, Needs, registered
from adaptlab.records.answer_forms import AnswerForm, NotPlainJson, json_in
from adaptlab.records.answer_schema import PACKAGE, answer_schema, installed_version


@registered
class Json(MeanMetric):
    """The share of decoded answers whose JSON value equals the right one.

    The order of members, spaces and the writing of numbers do not count. Text with a repeated key
    or with NaN is no JSON here. An item's statistics are whether the value is right, whether the
    answer is JSON, and whether it also fits the task's JSON Schema, if there is one, which the
    right answers must fit.
    """

    name: ClassVar[str] = "json"
    title: ClassVar[str] = "JSON match"
    meaning: ClassVar[str] = (
        "the share of answers that are JSON and have the value of the right one, for tasks with "
        "this metric"
    )
    needs: ClassVar[Needs] = "answers"
    columns: ClassVar[int] = 3
    reads: ClassVar[AnswerForm | None] = "json"
    reads_schema: ClassVar[bool] = True

    def __init__(self, schema: str | None = None) -> None:
        self._schema = schema

    def with_schema(self, schema: str) -> Metric:
        return Json(schema)

    @property
    def wanted(self) -> str:
        return super().wanted + (" and fit `answer_schema`" if self._schema else "")

    def reads_answer(self, right: str) -> bool:
        return super().reads_answer(right) and self._fits(right)

    def signature(self) -> str:
        checked = f"|{PACKAGE}|{installed_version()}" if self._schema else ""
        return super().signature() + checked

    def _fits(self, text: str) -> bool:
        return self._schema is None or answer_schema(self._schema).fits(text)

    def of_answer(self, given: str, right: str) -> tuple[float, ...]:
        expected = json_in(right)
        try:
            is_equal = _equal(json_in(given), expected)
        except (NotPlainJson, RecursionError):
            return 0.0, 0.0, 0.0
        return float(is_equal), 1.0, float(self._fits(given))

    def caution(self, statistics: NDArray[np.float64]) -> str | None:
        total = len(statistics)
        bad, unfit = total - statistics[:, 1].sum(), (statistics[:, 1] - statistics[:, 2]).sum()
        if not bad and not unfit:
            return None
        if not unfit:
            return f"{bad:,.0f} of {total:,} answers are no JSON, and count as wrong."
        return (
            f"Of {total:,} answers, {bad:,.0f} are no JSON and {unfit:,.0f} are JSON that does not "
            "fit the schema. They count as wrong."
        )


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
