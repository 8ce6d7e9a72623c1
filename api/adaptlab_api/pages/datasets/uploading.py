"""Routes of a file that a page sends: kept, inspected, made a dataset."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_reading import MENDING
from adaptlab_api.answers.problems import BAD_REQUEST, NO_FORM, TOO_MANY, Refused, status_of
from adaptlab_api.answers.state import Resources
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_api.pages.datasets.file_form import file_form
from adaptlab_api.pages.datasets.sent_file import FIELDS, SentFile
from adaptlab_api.pages.rendering.form_faults import REFUSALS, faults_of
from adaptlab_api.pages.rendering.parameters import Reader
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.rendering.sharing import FieldsDep
from adaptlab_api.requests.dependencies import (
    LooksDep,
    ResourcesDep,
    SubmitterDep,
    Units,
    UnitsDep,
)
from adaptlab_api.requests.readings import OTHERS, in_turn
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.datasets import PATIENCE_SECONDS, reading_limits, stored_records
from adaptlab_services.errors import Absent, TooManyUploads, UploadTooLarge
from adaptlab_services.models import upload_inspection
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads
from adaptlab_services.storage.uploads import UploadLimits

HERE = "/datasets"
NO_UPLOAD = "This file is no longer kept. Choose it again."
MULTIPART = "multipart/form-data"
_MOST_PARTS = 8
UNCHANGED = dict.fromkeys(MENDING, False)
"""The file is shown as it is, beside what can be changed in it."""


@asynccontextmanager
async def sent_file(request: Request) -> AsyncGenerator[UploadFile]:
    """Yield the file of a form, which is in a temporary file meanwhile.

    Raises:
        Refused: the body is no form.
        InvalidSpec: no file was chosen.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != MULTIPART:
        raise Refused(NO_FORM, f"The Content-Type is {kind[:64]!r}; send {MULTIPART}.")
    try:
        async with request.form(max_files=1, max_fields=_MOST_PARTS) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise InvalidSpec(Problem("/upload", "no_file", "None was chosen. Choose one."))
            yield file
    except (MultiPartException, HTTPException) as error:
        detail = getattr(error, "message", None) or getattr(error, "detail", "")
        raise Refused(BAD_REQUEST, f"The form cannot be read: {detail}") from error


def add_uploading(
    router: APIRouter,
    renderer: Renderer,
    content: Callable[[Session, Principal, Resources], dict[str, object]],
) -> None:
    """Add the routes of a sent file; `content` has the values of the page."""

    @router.post("/uploads")
    @needs("submitter")
    async def send_dataset_file(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        request: Request, units: UnitsDep, principal: SubmitterDep, opened: ResourcesDep
    ) -> Response:
        settings, turn = opened.settings, turn_of(request)
        limits = UploadLimits(settings.max_dataset_bytes, settings.max_uploads)
        try:
            async with sent_file(request) as file:
                named = SentFile(file.filename or "")
                keep = partial(
                    upload_inspection.keep_file,
                    units,
                    opened.sessions,
                    principal,
                    file.file,
                    limits,
                )
                upload = await turn.call(keep)
        except (*REFUSALS, UploadTooLarge, TooManyUploads) as error:
            refusal = error
            faults = (
                faults_of(refusal, {"/upload": "File"})
                if isinstance(refusal, REFUSALS)
                else (str(refusal),)
            )
            reader = Reader(principal.name, may_submit=True)
            shown = {"principal": reader, "here": HERE, "sent_faults": faults, **file_form(opened)}

            def page() -> Response:
                with units() as session:
                    shown.update(content(session, principal, opened))
                return renderer.page("datasets.html", shown, status_of(refusal))

            return await turn.call(page)
        return RedirectResponse(named.address(upload), 303)

    _add_page(router, renderer)


def _add_page(router: APIRouter, renderer: Renderer) -> None:
    """Add the page of a file that was sent, and what it leads to."""

    @router.get("/uploads/{upload}")
    @needs("submitter")
    async def dataset_file_page(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        upload: UUID, request: Request, looks: LooksDep, who: SubmitterDep, opened: ResourcesDep
    ) -> Response:
        query = request.query_params
        sent = SentFile.read({name: query.getlist(name) for name in query})
        return await _page(renderer, request, looks, who, opened, upload, sent)

    @router.post("/uploads/{upload}")
    @needs("submitter")
    async def create_from_file(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        upload: UUID,
        fields: FieldsDep,
        request: Request,
        units: UnitsDep,
        who: SubmitterDep,
        opened: ResourcesDep,
    ) -> Response:
        sent = SentFile.read(fields)
        try:
            reading = partial(stored_records, units, opened, who, sent.asked(upload))
            stored = await in_turn(request, PATIENCE_SECONDS, reading)
        except REFUSALS as refusal:
            faults, status = faults_of(refusal, FIELDS, NO_UPLOAD), status_of(refusal)
        else:
            if stored is not None:
                await turn_of(request).call(_forget, units, who, upload)
                return RedirectResponse(f"/studies/new?dataset={stored.dataset.name}", 303)
            faults, status = (OTHERS,), TOO_MANY.status
        return await _page(renderer, request, units, who, opened, upload, sent, faults, status)

    @router.post("/uploads/{upload}/forget")
    @needs("submitter")
    def forget_file(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        upload: UUID, units: UnitsDep, who: SubmitterDep
    ) -> Response:
        _forget(units, who, upload)
        return RedirectResponse(f"{HERE}#upload", 303)


def _forget(units: Units, who: Principal, upload: UUID) -> None:
    with suppress(Absent), units() as session:
        uploads.remove(session, who, upload)


async def _page(
    renderer: Renderer,
    request: Request,
    units: LooksDep,
    who: SubmitterDep,
    opened: ResourcesDep,
    upload: UUID,
    sent: SentFile,
    faults: tuple[str, ...] = (),
    status: int = 200,
) -> Response:
    """Return the page of a file, with what is in it or why it cannot be read."""
    found = None
    try:
        reading = partial(
            upload_inspection.inspected_upload, units, opened.sessions, who, upload, sent.file,
            sent.form(), sent.options().model_copy(update=UNCHANGED), reading_limits(opened),
        )  # fmt: skip
        found = await in_turn(request, PATIENCE_SECONDS, reading)
        if found is None:
            faults, status = (*faults, OTHERS), TOO_MANY.status
    except REFUSALS as refusal:
        problems = faults_of(refusal, {**FIELDS, sent.file: "File"}, NO_UPLOAD)
        faults, status = tuple(dict.fromkeys((*faults, *problems))), status_of(refusal)
    shown = {
        "principal": Reader(who.name, may_submit=True), "here": HERE, "upload": upload,
        "found": found, "faults": faults, **sent.shown(),
    }  # fmt: skip
    return await turn_of(request).call(lambda: renderer.page("dataset-file.html", shown, status))
