"""Errors of a form's fields, one sentence each."""

from collections.abc import Mapping

from adaptlab.errors import InvalidSpec
from adaptlab_api.answers.problems import Refused
from adaptlab_services.errors import Absent, Forbidden, StateConflict

FormRefusal = InvalidSpec | Refused | Forbidden | Absent | StateConflict
REFUSALS = (InvalidSpec, Refused, Forbidden, Absent, StateConflict)
"""The errors with which a service refuses what a form asks for."""


def faults_of(
    refusal: FormRefusal, fields: Mapping[str, str], missing: str | None = None
) -> tuple[str, ...]:
    """Return the errors in a form.

    Args:
        refusal: the error of the service.
        fields: labels of the fields by their place in the request.
        missing: the sentence for something that is named and does not exist.
    """
    match refusal:
        case InvalidSpec():
            return tuple(
                f"{_label(problem.pointer, fields)}: {problem.detail}"
                for problem in refusal.problems
            )
        case Absent() if missing is not None:
            return (missing,)
        case _:
            return (str(refusal),)


def _label(pointer: str, fields: Mapping[str, str]) -> str:
    """Return the label of the field of an error."""
    return next((name for place, name in fields.items() if pointer.startswith(place)), "The form")
