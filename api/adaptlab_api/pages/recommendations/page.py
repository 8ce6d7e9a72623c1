"""The page of recommendations: a form, and the answer from stored results."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from adaptlab.errors import AdaptlabError, InvalidSpec, Problem
from adaptlab.plugins.task import TASKS
from adaptlab.validation import validation_problems
from adaptlab_answers.recommendations import Recommendation
from adaptlab_api.pages.rendering.formats import integer, pretty
from adaptlab_api.requests.dependencies import Units
from adaptlab_services.models import base_models
from adaptlab_services.recommendations import recommendations
from adaptlab_services.recommendations.recommendation_views import RecommendationQuestion
from adaptlab_services.studies.studies import Rules

HERE = "/recommend"
MOST_NAMES = 200
_ONCE = re.compile(r"[0-9a-f]{32}")
PURPOSES = {
    "more_seeds": "More seeds",
    "equal_effort": "Equal effort",
    "asked_budget": "At the requested budget",
    "missing_method": "Method without results",
    "newer_code": "With the current code",
}
PARAMETERS, SHARE = "/budget/trainable_parameters", "/budget/fraction_of_base"
FIELDS: Mapping[str, tuple[str, str]] = {
    "/task": ("task", "Task"),
    "/base_model": ("base_model", "Base model"),
    SHARE: ("share", "% of the base model"),
    "/budget": ("parameters", "Maximum trainable parameters"),
    "/max_seconds": ("seconds", "Maximum seconds per job"),
}
"""Fields of the form and their labels, by their places in the question."""
LARGEST = 2**53
LONGEST_SECONDS = 7 * 24 * 3600
_QUESTION: TypeAdapter[RecommendationQuestion] = TypeAdapter(RecommendationQuestion)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """An error in one field; name and label are empty if it is in none."""

    field: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class FormFields:
    """The fields of the form as they were typed.

    The task is a name, or JSON with knobs; the budget is a number or a share in per cent.
    """

    task: str = ""
    base_model: str = ""
    parameters: str = ""
    share: str = ""
    seconds: str = ""

    @classmethod
    def read(cls, given: Mapping[str, Sequence[str]]) -> "FormFields":
        """Return the typed fields."""
        return cls(*(given.get(field.name, [""])[0].strip() for field in fields(cls)))

    def is_empty(self) -> bool:
        """Return True if every field is empty."""
        return not any(asdict(self).values())

    def question(self) -> RecommendationQuestion:
        """Return the question; raise `InvalidSpec` for invalid fields."""
        if faults := tuple(self._faults()):
            raise InvalidSpec(*faults)
        budget: dict[str, object] = {}
        if self.parameters:
            budget["trainable_parameters"] = _number(self.parameters)
        if self.share:
            budget["fraction_of_base"] = (_number(self.share) or 0) / 100
        document: dict[str, object] = {
            "task": _task(self.task),
            "base_model": self.base_model,
            "budget": budget,
        }
        if self.seconds:
            document["max_seconds"] = _number(self.seconds)
        try:
            return _QUESTION.validate_json(to_json(document), strict=True)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False)
            raise InvalidSpec(*validation_problems(faults, document)) from error

    def _faults(self) -> Iterator[Problem]:
        """Yield the errors that name a field of the form."""
        if not self.task:
            yield Problem("/task", "missing", "Choose one, or enter its name.")
        if not self.base_model:
            yield Problem("/base_model", "missing", "Choose one, or enter its name.")
        if bool(self.parameters) == bool(self.share):
            detail = (
                "Enter either a number of trainable parameters or a percentage of the base model."
            )
            yield Problem("/budget", "one_of_two", detail)
        yield from _no_number(PARAMETERS, self.parameters, LARGEST, whole=True)
        yield from _no_number(SHARE, self.share, 100)
        yield from _no_number("/max_seconds", self.seconds, LONGEST_SECONDS)


def faults_of(refusal: AdaptlabError) -> tuple[FieldProblem, ...]:
    """Return the errors of a refusal, with their fields."""
    if not isinstance(refusal, InvalidSpec):
        return (FieldProblem("", "", f"{refusal}"),)
    return tuple(_at_field(problem) for problem in refusal.problems)


def recommend_page(
    units: Units, asked: FormFields, rules: Rules, refusal: AdaptlabError | None = None
) -> dict[str, object]:
    """Return the values of the template, with an answer or the errors."""
    answer: Recommendation | None = None
    if not asked.is_empty() and refusal is None:
        try:
            answer = recommendations.recommend(units, asked.question(), rules)
        except InvalidSpec as fault:
            refusal = fault
    with units() as session:
        bases = base_models.page(session, MOST_NAMES)
    return {
        "asked": asked,
        "fields": {**asdict(asked), "once": uuid4().hex},
        "tasks": TASKS.names(),
        "bases": [base.name for base in bases.data],
        "more_bases": bases.next_page_token is not None,
        "faults": faults_of(refusal) if refusal else (),
        "answer": answer,
        "purposes": PURPOSES,
        "study_json": pretty(answer.first_study.spec) if answer and answer.first_study else "",
    }


def once(given: Mapping[str, Sequence[str]]) -> str | None:
    """Return the key by which a form that is sent twice submits once."""
    key = given.get("once", [""])[0]
    return key if _ONCE.fullmatch(key) else None


def _task(text: str) -> object:
    """Return a task by name, or by JSON with knobs; raise `InvalidSpec`."""
    if not text.startswith("{"):
        return text
    try:
        return from_json(text)
    except ValueError as error:
        detail = f"The task is not valid JSON: {error}. Enter a name, or an object with knobs."
        raise InvalidSpec(Problem("/task", "not_json", detail)) from None


def _at_field(problem: Problem) -> FieldProblem:
    for pointer, (field, label) in FIELDS.items():
        if problem.pointer == pointer or problem.pointer.startswith(f"{pointer}/"):
            knob = problem.pointer.removeprefix(f"{pointer}/") if field == "task" else ""
            deeper = f", {knob}" if knob not in ("", "/task", "name") else ""
            return FieldProblem(field, label + deeper, problem.detail)
    return FieldProblem("", "", problem.detail)


def _no_number(pointer: str, text: str, most: int, *, whole: bool = False) -> Iterator[Problem]:
    """Yield the error in a typed number, if any."""
    if not text:
        return
    number = _number(text)
    if number is None or (whole and not isinstance(number, int)):
        kind = "whole number" if whole else "number"
        yield Problem(pointer, "no_number", f"“{text[:40]}” is not a {kind}.")
    elif not 0 < number <= most:
        detail = f"{text[:40]} is out of range: enter a number above 0 and at most {integer(most)}."
        yield Problem(pointer, "out_of_range", detail)


def _number(text: str) -> int | float | None:
    """Return a typed number, which may have thousands separators, or None."""
    plain = text.replace("\N{NARROW NO-BREAK SPACE}", "").replace(" ", "").replace(",", "")
    for kind in (int, float):
        try:
            number = kind(plain)
        except ValueError:
            continue
        return number if isinstance(number, int) or isfinite(number) else None
    return None
