"""`/v1/uploads`: content that is sent in chunks."""

from typing import Annotated
from uuid import UUID

from fastapi import Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from adaptlab_answers.paging import Page
from adaptlab_answers.storage import UploadView
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import (
    ResourcesDep,
    SessionDep,
    SubmitterDep,
)
from adaptlab_api.requests.describing import WITH_BODY, bytes_body, created, failures
from adaptlab_api.requests.receiving import BYTES, announced_digest, take_in
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.settings import Settings
from adaptlab_services.storage import uploads
from adaptlab_services.storage.upload_chunks import AnnouncedChunk, receiving
from adaptlab_services.storage.uploads import NewUpload, UploadLimits

UploadId = Annotated[UUID, Path(description="The id of an upload.")]
ChunkNumber = Annotated[int, Path(ge=0, le=2**31 - 1, description="The chunk's number, from 0.")]
DIGEST = {
    "name": "Content-Digest",
    "in": "header",
    "required": True,
    "description": "The SHA-256 of the body (RFC 9530), as `sha-256=:BASE64:`.",
    "schema": {"type": "string"},
}


router = api_router("/uploads", tag="uploads")


@router.post(
    "",
    status_code=201,
    response_model=UploadView,
    responses={
        **created("upload"),
        200: {"model": UploadView, "description": "An earlier request created this upload."},
        **failures(429, *WITH_BODY),
    },
)
@needs("submitter")
def begin_upload(
    body: Annotated[Body[NewUpload], json_body(NewUpload)],
    session: SessionDep,
    who: SubmitterDep,
    opened: ResourcesDep,
) -> Response:
    """Create an upload, whose chunks follow; the same request again returns it."""
    begun = uploads.begin(session, who, body.read(), _limits(opened.settings))
    if not begun.is_new:
        return json_answer(begun.upload)
    return json_answer(begun.upload, status=201, headers={"Location": begun.upload.links.self})


@router.get("", response_model=Page[UploadView], responses=failures())
@needs("submitter")
def list_uploads(session: SessionDep, who: SubmitterDep) -> Response:
    """List your uploads, complete and incomplete, oldest first."""
    return json_answer(uploads.page(session, who))


@router.get("/{upload_id}", response_model=UploadView, responses=failures(404))
@needs("submitter")
def get_upload(upload_id: UploadId, session: SessionDep, who: SubmitterDep) -> Response:
    """Get one of your uploads, with the chunks received so far."""
    return json_answer(uploads.get(session, who, upload_id))


@router.delete("/{upload_id}", status_code=204, responses=failures(404))
@needs("submitter")
def delete_upload(upload_id: UploadId, session: SessionDep, who: SubmitterDep) -> Response:
    """Delete an upload that has been used or is no longer needed."""
    uploads.remove(session, who, upload_id)
    return Response(status_code=204, headers=NO_STORE)


@router.put(
    "/{upload_id}/chunks/{number}",
    status_code=204,
    openapi_extra=bytes_body(BYTES) | {"parameters": [DIGEST]},
    responses=failures(404, 409, *WITH_BODY),
)
@needs("submitter")
async def put_upload_chunk(
    upload_id: UploadId,
    number: ChunkNumber,
    request: Request,
    who: SubmitterDep,
    opened: ResourcesDep,
) -> Response:
    """Store one chunk; chunks can be sent in any order, in parallel and again."""
    chunk = AnnouncedChunk(upload_id, number, announced_digest(request))
    await take_in(request, await run_in_threadpool(receiving, opened.sessions, who, chunk))
    return Response(status_code=204, headers=NO_STORE)


@router.post("/{upload_id}/complete", response_model=UploadView, responses=failures(404, 409))
@needs("submitter")
def complete_upload(upload_id: UploadId, session: SessionDep, who: SubmitterDep) -> Response:
    """Complete an upload; the server checks the content against its digest."""
    return json_answer(uploads.complete(session, who, upload_id))


def _limits(settings: Settings) -> UploadLimits:
    return UploadLimits(settings.max_upload_bytes, settings.max_uploads)
