"""The page of recommendations: a question as a form, and what stored results say of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.task import TASKS
from adaptlab.validation import validation_problems
from adaptlab_api.pages.formats import pretty
from adaptlab_services import base_models, recommendations
from adaptlab_services.recommendation_views import Recommendation, RecommendationQuestion
from adaptlab_services.studies import Rules

HERE = "/recommend"
MOST_NAMES = 200
_ONCE = re.compile(r"[0-9a-f]{32}")
PURPOSES = {
    "more_seeds": "More seeds",
    "equal_effort": "Equal effort",
    "asked_budget": "At the budget asked for",
    "missing_method": "A method that was not run",
    "newer_code": "With today's code",
}
_QUESTION: TypeAdapter[RecommendationQuestion] = TypeAdapter(RecommendationQuestion)


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
        budget: dict[str, object] = {}
        if self.parameters:
            budget["trainable_parameters"] = _number(self.parameters)
        if self.share:
            share = _number(self.share)
            budget["fraction_of_base"] = share / 100 if isinstance(share, float | int) else share
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


def recommend_page(
    session: Session, asked: Asked, rules: Rules, refusal: str | None = None
) -> dict[str, object]:
    """Everything that the template shows, and a fault instead of an answer where there is one."""
    answer: Recommendation | None = None
    if not asked.is_empty() and refusal is None:
        try:
            answer = recommendations.recommend(session, asked.question(), rules)
        except InvalidSpec as fault:
            refusal = f"{fault}"
    bases = base_models.page(session, MOST_NAMES)
    return {
        "asked": asked,
        "fields": {**asdict(asked), "once": uuid4().hex},
        "tasks": TASKS.names(),
        "bases": [one.name for one in bases.data],
        "more_bases": bases.next_page_token is not None,
        "refusal": refusal,
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
        detail = f"The task is no JSON: {error}. Give a name, or an object with its knobs."
        raise InvalidSpec(Problem("/task", "not_json", detail)) from None


def _number(text: str) -> int | float | str:
    """A number as it was typed, with spaces or commas between thousands; else the text."""
    plain = text.replace("\N{NARROW NO-BREAK SPACE}", "").replace(" ", "").replace(",", "")
    try:
        return int(plain)
    except ValueError:
        try:
            return float(plain)
        except ValueError:
            return text
