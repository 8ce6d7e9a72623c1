"""`/v1/budgets`: the size of every method at a parameter budget."""

from typing import Annotated

from starlette.responses import Response

from adaptlab_answers.models import BudgetAnswer
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.describing import WITH_BODY, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.models import budgets
from adaptlab_services.models.budgets import BudgetQuestion

router = api_router("/budgets", tag="budgets")


@router.post(
    "/solve",
    response_model=BudgetAnswer,
    responses=failures(*WITH_BODY),
)
@needs("reader")
def solve_budget(
    body: Annotated[Body[BudgetQuestion], json_body(BudgetQuestion)], session: SessionDep
) -> Response:
    """Solve a budget for every method: its configuration and exact cost, or why it has none.

    Nothing is stored or trained.
    """
    return json_answer(budgets.answer(session, body.read()))
