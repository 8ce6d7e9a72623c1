"""`/v1/recommendations`: which method for a task, and what that rests on."""

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.responses import Response

from adaptlab_answers.recommendations import Recommendation
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.dependencies import BodyDep, ResourcesDep, SessionDep, valid
from adaptlab_api.requests.describing import WITH_BODY, failures, json_body
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.study_request import study_rules
from adaptlab_services.recommendations import recommendations
from adaptlab_services.recommendations.recommendation_views import RecommendationQuestion

_QUESTION = TypeAdapter(RecommendationQuestion)


def recommendations_router() -> APIRouter:
    """The route of recommendations."""
    router = api_router(tag="recommendations")
    router.add_api_route(
        "/recommendations",
        recommend,
        methods=["POST"],
        response_model=Recommendation,
        openapi_extra=json_body("RecommendationQuestion"),
        responses=failures(*WITH_BODY),
    )
    return router


def recommend(body: BodyDep, session: SessionDep, opened: ResourcesDep) -> Response:
    """Recommend a method for a task and a base model within a budget, from stored results.

    Nothing is stored or trained. The answer lists weak evidence and the jobs that would strengthen
    it. Without comparable results, it has no score but proposes a first study.
    """
    question = valid(_QUESTION, body)
    return json_answer(recommendations.recommend(session, question, study_rules(opened)))
