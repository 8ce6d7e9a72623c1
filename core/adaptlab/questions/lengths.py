"""The length of trainings: doubled for all while losses still fall."""

from dataclasses import dataclass

from adaptlab.figures import listed
from adaptlab.questions.passes import MethodState, TableState
from adaptlab.questions.rates import Tuned, tuning


@dataclass(frozen=True, slots=True)
class Length:
    """The trainings of a table that count: those of one length.

    Attributes:
        table: the methods with their steps at this length, and its passes alone.
        times: how many times the steps of the study.
        may_double: true if trainings can still become longer.
        reason: why they are longer than the study's, empty if they are not.
    """

    table: TableState
    times: int
    may_double: bool
    reason: str


def length_of(table: TableState, most: int) -> Length:
    """Return the length that counts, of at most `most` times the steps.

    All methods are trained for equally many times their steps. These are doubled when every method
    has its rate, and the loss of one still fell there. That is decided before the first seeds of
    evidence, which would be of no use otherwise.
    """
    times, reason = 1, ""
    while True:
        now = _at(table, times)
        tuned = {one.label: tuning(one) for one in now.methods if not one.has_failed}
        falling = [label for label, one in tuned.items() if isinstance(one, Tuned) and one.falls]
        has_evidence = any(
            one.kind == "evidence" and one.state != "dropped"
            for method in now.methods
            for one in method.passes
        )
        may_double = 2 * times <= most and not has_evidence
        if not (may_double and falling and all(isinstance(one, Tuned) for one in tuned.values())):
            return Length(now, times, may_double, reason)
        times *= 2
        reason = f"The loss of {listed(falling)} still fell, so all methods are trained for longer."


def _at(table: TableState, times: int) -> TableState:
    methods = tuple(_method_at(one, times) for one in table.methods)
    return table.model_copy(update={"methods": methods})


def _method_at(method: MethodState, times: int) -> MethodState:
    passes = tuple(one for one in method.passes if one.times_longer == times)
    return method.model_copy(update={"passes": passes, "steps": times * method.steps})
