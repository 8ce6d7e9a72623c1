"""`/v1/recipes` and `/v1/studies/{study}/report`."""

from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from adaptlab_answers.recipes import RecipeList, RecipeView, StudyReport
from adaptlab_api.answers.answers import tagged_answer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.describing import failures, succeeds
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.studies import Studied
from adaptlab_services.recipes import recipes

Named = Annotated[
    str, Path(max_length=120, description="The name of a recipe; its slash needs no escape.")
]


_UNCHANGED = succeeds(304, "The answer has not changed.")

router = api_router(tag="recipes")


@router.get("/recipes", response_model=RecipeList, responses=_UNCHANGED | failures())
@needs("reader")
def list_recipes(request: Request) -> Response:
    """List the recipes: studies that repeat a table of a paper, by name."""
    return tagged_answer(recipes.listed(), request.headers)


@router.get("/recipes/{name:path}", response_model=RecipeView, responses=_UNCHANGED | failures(404))
@needs("reader")
def get_recipe(name: Named, request: Request) -> Response:
    """Get a recipe: the paper's tables and claims, and the study and notes of each preset."""
    return tagged_answer(recipes.get(name), request.headers)


@router.get(
    "/studies/{study}/report", response_model=StudyReport, responses=_UNCHANGED | failures(404, 409)
)
@needs("reader")
def get_study_report(study: Studied, session: SessionDep, request: Request) -> Response:
    """Get the paper's tables with the results of a study so far, and the findings on claims.

    A study that was not created from a recipe has no report.
    """
    return tagged_answer(recipes.report(session, study), request.headers)
