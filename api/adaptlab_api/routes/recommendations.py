"""`/v1/recommendations`: a method for a task, with the evidence."""

from typing import Annotated

from starlette.responses import Response

from adaptlab_answers.recommendations import Recommendation
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import ResourcesDep, UnitsDep
from adaptlab_api.requests.describing import WITH_BODY, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.requests.study_request import study_rules
from adaptlab_services.recommendations import recommendations
from adaptlab_services.recommendations.recommendation_views import RecommendationQuestion

router = api_router(tag="recommendations")


@router.post(
    "/recommendations",
    response_model=Recommendation,
    responses=failures(*WITH_BODY),
)
@needs("reader")
def recommend(
    body: Annotated[Body[RecommendationQuestion], json_body(RecommendationQuestion)],
    units: UnitsDep,
    opened: ResourcesDep,
) -> Response:
    """Recommend a method for a task and a base model within a budget, from stored results.

    Nothing is stored or trained. The answer lists weak evidence and the jobs that would strengthen
    it. Without comparable results, it has no score but proposes a first study.
    """
    question = body.read()
    return json_answer(recommendations.recommend(units, question, study_rules(opened)))
