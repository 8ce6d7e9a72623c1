"""`/v1/trackers`: boards that get the studies of a project."""

from typing import Annotated

from starlette.responses import Response

from adaptlab_answers.paging import Page
from adaptlab_answers.trackers.views import TrackerView
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import AccessDep, PrincipalDep, ResourcesDep, SessionDep
from adaptlab_api.requests.describing import WITH_BODY, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.results import RowId
from adaptlab_services.trackers import trackers
from adaptlab_services.trackers.trackers import NewTracker

router = api_router("/trackers", tag="trackers")


@router.post("", status_code=201, response_model=TrackerView, responses=failures(409, *WITH_BODY))
@needs("operator")
def add_tracker(
    body: Annotated[Body[NewTracker], json_body(NewTracker)],
    session: SessionDep,
    who: PrincipalDep,
    opened: ResourcesDep,
) -> Response:
    """Add a tracker, as an admin of the project; its token is not shown again."""
    return json_answer(trackers.add(session, who, body.read(), opened.settings), status=201)


@router.get("", response_model=Page[TrackerView], responses=failures())
@needs("operator")
def list_trackers(session: SessionDep, access: AccessDep) -> Response:
    """List the trackers of projects in which you are an operator."""
    return json_answer(trackers.listed(session, access))


@router.delete("/{tracker_id}", status_code=204, responses=failures(404))
@needs("operator")
def remove_tracker(tracker_id: RowId, session: SessionDep) -> Response:
    """Remove a tracker, as an admin of the project; what it has stays there."""
    trackers.remove(session, tracker_id)
    return Response(status_code=204, headers=NO_STORE)
