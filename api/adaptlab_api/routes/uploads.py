"""`/v1/uploads`: bytes that are too many for one request, sent in chunks."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from adaptlab_answers.paging import Page
from adaptlab_answers.storage import UploadView
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.requests.dependencies import (
    BodyDep,
    ResourcesDep,
    SessionDep,
    SubmitterDep,
    valid,
)
from adaptlab_api.requests.describing import WITH_BODY, Described, bytes_body, failures, json_body
from adaptlab_api.requests.receiving import BYTES, announced_digest, take_in
from adaptlab_api.requests.routing import api_router
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

_NEW = TypeAdapter(NewUpload)


def uploads_router() -> APIRouter:
    """The routes of uploads."""
    router = api_router("/uploads", tag="uploads")
    router.add_api_route(
        "",
        begin_upload,
        methods=["POST"],
        status_code=201,
        response_model=UploadView,
        openapi_extra=json_body("NewUpload"),
        responses=_new_upload() | failures(429, *WITH_BODY),
    )
    router.add_api_route("", list_uploads, response_model=Page[UploadView], responses=failures())
    one = "/{upload_id}"
    router.add_api_route(one, get_upload, response_model=UploadView, responses=failures(404))
    router.add_api_route(
        one, delete_upload, methods=["DELETE"], status_code=204, responses=failures(404)
    )
    router.add_api_route(
        f"{one}/chunks/{{number}}",
        put_upload_chunk,
        methods=["PUT"],
        status_code=204,
        openapi_extra=bytes_body(BYTES) | {"parameters": [DIGEST]},
        responses=failures(404, 409, *WITH_BODY),
    )
    router.add_api_route(
        f"{one}/complete",
        complete_upload,
        methods=["POST"],
        response_model=UploadView,
        responses=failures(404, 409),
    )
    return router


def begin_upload(
    body: BodyDep, session: SessionDep, who: SubmitterDep, opened: ResourcesDep
) -> Response:
    """Create an upload, whose chunks follow; the same request again returns it."""
    begun = uploads.begin(session, who, valid(_NEW, body), _limits(opened.settings))
    if not begun.is_new:
        return json_answer(begun.upload)
    return json_answer(begun.upload, status=201, headers={"Location": begun.upload.links.self})


def list_uploads(session: SessionDep, who: SubmitterDep) -> Response:
    """List your uploads, complete and incomplete, oldest first."""
    return json_answer(uploads.page(session, who))


def get_upload(upload_id: UploadId, session: SessionDep, who: SubmitterDep) -> Response:
    """Get one of your uploads, with the chunks received so far."""
    return json_answer(uploads.get(session, who, upload_id))


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


def complete_upload(upload_id: UploadId, session: SessionDep, who: SubmitterDep) -> Response:
    """Complete an upload; the server checks the content against its digest."""
    return json_answer(uploads.complete(session, who, upload_id))


def delete_upload(upload_id: UploadId, session: SessionDep, who: SubmitterDep) -> Response:
    """Delete an upload that has been used or is no longer needed."""
    uploads.remove(session, who, upload_id)
    return Response(status_code=204, headers=NO_STORE)


def _limits(settings: Settings) -> UploadLimits:
    return UploadLimits(settings.max_upload_bytes, settings.max_uploads)


def _new_upload() -> Described:
    headers = {
        "Location": {"description": "The address of the upload.", "schema": {"type": "string"}}
    }
    return {
        201: {"description": "The new upload.", "headers": headers},
        200: {"model": UploadView, "description": "An earlier request created this upload."},
    }
