"""`/v1/jobs/{id}/attention`: maps, their summaries and their arrays."""

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from adaptlab.runs.events import AttentionSource
from adaptlab_answers.attention import Maps
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.files import file_answer
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, UnitsDep
from adaptlab_api.requests.describing import failures
from adaptlab_api.requests.identities import JobId
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.files import file_route
from adaptlab_api.routes.results import RowId
from adaptlab_services.results import attention
from adaptlab_services.results.attention import MapFilter

Place = Annotated[int | None, Query(ge=0, le=2**31 - 1)]


router = api_router("/jobs/{job_id}/attention", tag="attention")


@router.get("", response_model=Maps, responses=failures(404))
@needs("reader")
def list_maps(
    job_id: JobId,
    session: SessionDep,
    source: AttentionSource | None = None,
    replicate: Place = None,
    layer: Place = None,
    head: Place = None,
) -> Response:
    """List the attention maps of a job, with their summaries by layer and head."""
    wanted = MapFilter(source=source, replicate=replicate, layer=layer, head=head)
    return json_answer(attention.maps(session, job_id, wanted))


@file_route(router, "/{map_id}/content")
@needs("reader")
def get_map_content(
    job_id: JobId, map_id: RowId, request: Request, opened: ResourcesDep, opens: UnitsDep
) -> Response:
    """Get one attention map as a `.npy` file."""
    with opens() as session:
        file = attention.content(session, job_id, map_id)
    return file_answer(opened.sessions, file, request.headers, head=request.method == "HEAD")
