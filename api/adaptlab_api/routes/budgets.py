"""`/v1/budgets`: what every method becomes within a parameter budget."""

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.responses import Response

from adaptlab_answers.models import BudgetAnswer
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.dependencies import BodyDep, SessionDep, valid
from adaptlab_api.requests.describing import WITH_BODY, failures, json_body
from adaptlab_api.requests.routing import api_router
from adaptlab_services.models import budgets
from adaptlab_services.models.budgets import BudgetQuestion

_QUESTION = TypeAdapter(BudgetQuestion)


def budgets_router() -> APIRouter:
    """The routes of budgets."""
    router = api_router("/budgets", tag="budgets")
    router.add_api_route(
        "/solve",
        solve_budget,
        methods=["POST"],
        response_model=BudgetAnswer,
        openapi_extra=json_body("BudgetQuestion"),
        responses=failures(*WITH_BODY),
    )
    return router


def solve_budget(body: BodyDep, session: SessionDep) -> Response:
    """Solve a budget for every method: its configuration and exact cost, or why it has none.

    Nothing is stored or trained.
    """
    return json_answer(budgets.answer(session, valid(_QUESTION, body)))
