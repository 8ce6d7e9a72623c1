"""Checks of reported values of tasks' metrics."""

import math
from collections.abc import Iterator

from adaptlab.errors import Problem
from adaptlab.plugins.metric import Metric, measured_on, metric_named
from adaptlab.runs.bounds import number, text
from adaptlab.runs.events import Evaluation, Measure
from adaptlab.runs.item_statistics import from_text, unpacked

LONGEST_SIGNATURE = 256
"""Characters."""
ROUNDING = 1e-4
"""Statistics by item are kept in single precision."""


def measure_problems(at: str, evaluation: Evaluation) -> Iterator[Problem]:
    """Yield what is wrong with the measures of a scored task.

    A task's metric has to be sent, and those that accompany answers may be. Each has statistics by
    item, from which its value follows.
    """
    at, expected = f"{at}/measures", measured_on(evaluation.task)
    own = metric_named(evaluation.task.get("metric"))
    for place, measure in enumerate(evaluation.measures[len(expected) :], len(expected)):
        yield _not_asked_for(f"{at}/{place}", measure)
        return
    for place, one in enumerate(expected):
        if place == len(evaluation.measures):
            if one is not own:
                return  # earlier workers send the task's metric alone
            detail = f"{one.title} is the metric of this task. Send its value."
            yield Problem(at, "missing", detail)
            return
        if evaluation.measures[place].metric != one.name:
            yield _not_asked_for(f"{at}/{place}", evaluation.measures[place])
            return
        yield from _measure(f"{at}/{place}", one, evaluation.measures[place], evaluation.total)


def _not_asked_for(at: str, measure: Measure) -> Problem:
    detail = f"{measure.metric[:64]!r} is not the metric of this task. Leave it out."
    return Problem(f"{at}/metric", "not_asked_for", detail)


def _measure(at: str, metric: Metric, measure: Measure, items: int) -> Iterator[Problem]:
    yield from number(f"{at}/value", measure.value, *metric.limits)
    yield from text(f"{at}/signature", measure.signature, LONGEST_SIGNATURE)
    if measure.floor is not None:
        yield from number(f"{at}/floor/value", measure.floor.value, *metric.limits)
    if measure.statistics is None:
        detail = f"The statistics by item of {metric.in_sentence} are missing. Send them."
        yield Problem(f"{at}/statistics", "missing", detail)
        return
    yield from _statistics(f"{at}/statistics", items, metric, measure.statistics, measure.value)


def _statistics(
    at: str, items: int, metric: Metric, packed: str, value: float
) -> Iterator[Problem]:
    try:
        found = metric.value(unpacked(from_text(packed), items, metric.columns))
    except ValueError as error:
        detail = f"The statistics by item of {metric.in_sentence} cannot be read. {error}"
        yield Problem(at, "unreadable", detail)
        return
    if not math.isclose(found, value, rel_tol=ROUNDING, abs_tol=ROUNDING):
        detail = (
            f"The statistics by item give {metric.in_sentence} {found:.6g}, but {value:.6g} was "
            "sent. Send the value that follows from them."
        )
        yield Problem(at, "inconsistent", detail)
