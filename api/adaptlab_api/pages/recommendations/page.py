"""The page of recommendations: a question as a form, and what stored results say of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from sqlalchemy.orm import Session

from adaptlab.errors import AdaptlabError, InvalidSpec, Problem
from adaptlab.plugins.task import TASKS
from adaptlab.validation import validation_problems
from adaptlab_answers.recommendations import Recommendation
from adaptlab_api.pages.rendering.formats import integer, pretty
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
"""The field of the form that a place of the question comes from, and its label."""
LARGEST = 2**53
LONGEST_SECONDS = 7 * 24 * 3600
_QUESTION: TypeAdapter[RecommendationQuestion] = TypeAdapter(RecommendationQuestion)


@dataclass(frozen=True, slots=True)
class FieldFault:
    """What is wrong with the field of that name; no name and label where it is with none."""

    field: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The fields of the form as they were typed.

    The task is a name, or JSON with knobs; the budget is a number or a share in per cent.
    """

    task: str = ""
    base_model: str = ""
    parameters: str = ""
    share: str = ""
    seconds: str = ""

    @classmethod
    def read(cls, given: Mapping[str, Sequence[str]]) -> "Asked":
        """From the fields of a form."""
        return cls(*(given.get(field.name, [""])[0].strip() for field in fields(cls)))

    def is_empty(self) -> bool:
        """Whether nothing was asked yet."""
        return not any(asdict(self).values())

    def question(self) -> RecommendationQuestion:
        """The question; raises `InvalidSpec` for fields that make none."""
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
        """What can be said in the words of the form."""
        if not self.task:
            yield Problem("/task", "missing", "Choose one, or enter its name.")
        if not self.base_model:
            yield Problem("/base_model", "missing", "Choose one, or enter its name.")
        if bool(self.parameters) == bool(self.share):
            told = (
                "Enter either a number of trainable parameters or a percentage of the base model."
            )
            yield Problem("/budget", "one_of_two", told)
        yield from _no_number(PARAMETERS, self.parameters, LARGEST, whole=True)
        yield from _no_number(SHARE, self.share, 100)
        yield from _no_number("/max_seconds", self.seconds, LONGEST_SECONDS)


def faults_of(refusal: AdaptlabError) -> tuple[FieldFault, ...]:
    """What a refusal says, each beside the label of the field that it is about."""
    if not isinstance(refusal, InvalidSpec):
        return (FieldFault("", "", f"{refusal}"),)
    return tuple(_at_field(problem) for problem in refusal.problems)


def recommend_page(
    session: Session, asked: Asked, rules: Rules, refusal: AdaptlabError | None = None
) -> dict[str, object]:
    """Everything that the template shows, and a fault instead of an answer where there is one."""
    answer: Recommendation | None = None
    if not asked.is_empty() and refusal is None:
        try:
            answer = recommendations.recommend(session, asked.question(), rules)
        except InvalidSpec as fault:
            refusal = fault
    bases = base_models.page(session, MOST_NAMES)
    return {
        "asked": asked,
        "fields": {**asdict(asked), "once": uuid4().hex},
        "tasks": TASKS.names(),
        "bases": [one.name for one in bases.data],
        "more_bases": bases.next_page_token is not None,
        "faults": faults_of(refusal) if refusal else (),
        "answer": answer,
        "purposes": PURPOSES,
        "study_json": pretty(answer.first_study.spec) if answer and answer.first_study else "",
    }


def once(given: Mapping[str, Sequence[str]]) -> str | None:
    """What tells two answers apart, by which a form that is sent twice submits once."""
    found = given.get("once", [""])[0]
    return found if _ONCE.fullmatch(found) else None


def _task(text: str) -> object:
    """A task by its name, or with knobs where it is a JSON object; raises `InvalidSpec`."""
    if not text.startswith("{"):
        return text
    try:
        return from_json(text)
    except ValueError as error:
        detail = f"The task is not valid JSON: {error}. Enter a name, or an object with knobs."
        raise InvalidSpec(Problem("/task", "not_json", detail)) from None


def _at_field(problem: Problem) -> FieldFault:
    for pointer, (field, label) in FIELDS.items():
        if problem.pointer == pointer or problem.pointer.startswith(f"{pointer}/"):
            knob = problem.pointer.removeprefix(f"{pointer}/") if field == "task" else ""
            deeper = f", {knob}" if knob not in ("", "/task", "name") else ""
            return FieldFault(field, label + deeper, problem.detail)
    return FieldFault("", "", problem.detail)


def _no_number(pointer: str, text: str, most: int, *, whole: bool = False) -> Iterator[Problem]:
    """What is wrong with a number as it was typed; nothing where nothing was."""
    if not text:
        return
    number = _number(text)
    if number is None or (whole and not isinstance(number, int)):
        kind = "whole number" if whole else "number"
        yield Problem(pointer, "no_number", f"“{text[:40]}” is not a {kind}.")
    elif not 0 < number <= most:
        told = f"{text[:40]} is out of range: enter a number above 0 and at most {integer(most)}."
        yield Problem(pointer, "out_of_range", told)


def _number(text: str) -> int | float | None:
    """A number as it was typed, with spaces or commas between thousands; None for another text."""
    plain = text.replace("\N{NARROW NO-BREAK SPACE}", "").replace(" ", "").replace(",", "")
    for kind in (int, float):
        try:
            found = kind(plain)
        except ValueError:
            continue
        return found if isinstance(found, int) or isfinite(found) else None
    return None
