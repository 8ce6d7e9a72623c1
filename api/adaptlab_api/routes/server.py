"""The server itself: workers, capabilities, health and description."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from adaptlab.specs.spec import SPEC_VERSION
from adaptlab_answers.server import Capabilities, Expiry, Health, Limits, Workers
from adaptlab_answers.storage import StorageStatus
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.answers.problems import RETRY_SECONDS, STORE_UNAVAILABLE, no_database, problem
from adaptlab_api.answers.state import resources_of
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep
from adaptlab_api.requests.describing import failures, only_failures
from adaptlab_api.requests.routing import api_router, closed_router, operation_id
from adaptlab_api.requests.rules import needs
from adaptlab_api.requests.strict_json import DEEPEST
from adaptlab_api.routes.jobs import LONGEST_WAIT
from adaptlab_db.tables import JOB_STATES
from adaptlab_services.lifecycle import workers
from adaptlab_services.models import catalogue
from adaptlab_services.paging import LARGEST_PAGE_SIZE
from adaptlab_services.people.idempotency import KEPT_FOR
from adaptlab_services.storage import storage_status
from adaptlab_services.storage.uploads import CHUNK_BYTES

router = api_router(tag="server")
health = APIRouter(tags=["health"], generate_unique_id_function=operation_id)
description = closed_router()


@router.get("/workers", response_model=Workers, responses=failures())
@needs("reader")
def list_workers(session: SessionDep) -> Response:
    """List the workers with the latest heartbeats."""
    return json_answer(Workers(data=workers.recent(session)))


@router.get("/capabilities", response_model=Capabilities, responses=failures())
@needs("reader")
def get_capabilities(opened: ResourcesDep) -> Response:
    """Get versions, names and limits."""
    limits = Limits(
        body_bytes=opened.settings.max_body_bytes,
        json_depth=DEEPEST,
        page_size=LARGEST_PAGE_SIZE,
        wait_seconds=LONGEST_WAIT,
        idempotency_key_days=KEPT_FOR.days,
        upload_bytes=opened.settings.max_upload_bytes,
        upload_chunk_bytes=CHUNK_BYTES,
    )
    settings = opened.settings
    expiry = Expiry(**{name: getattr(settings, name) for name in Expiry.model_fields})
    capabilities = Capabilities(
        version=version("adaptlab"),
        spec_version=SPEC_VERSION,
        job_states=JOB_STATES,
        methods=tuple(entry.name for entry in catalogue.methods().data),
        tasks=tuple(entry.name for entry in catalogue.tasks().data),
        families=tuple(entry.name for entry in catalogue.families().data),
        limits=limits,
        expiry=expiry,
    )
    return json_answer(capabilities)


@router.get("/storage", response_model=StorageStatus, responses=failures())
@needs("admin")
def get_storage(session: SessionDep) -> Response:
    """Get the sizes of the stores, and how much is damaged or collected."""
    return json_answer(storage_status.status(session))


@health.get("/healthz", response_model=Health, responses=only_failures(400, 431, 500))
async def healthz() -> Response:
    """Answer 200 if the process responds."""
    return json_answer(Health(status="ok"))


@health.get("/readyz", response_model=Health, responses=only_failures(400, 431, 500, 503))
async def readyz(request: Request) -> Response:
    """Answer within about two seconds: 200 if the database and the artifact folder answer.

    `degraded` names a broker that does not answer; workers then poll for jobs.
    """
    # Not a dependency: FastAPI runs those in threads, which slow readers may occupy.
    silent = await resources_of(request.app).readiness.silent()
    if "database" in silent:
        return no_database()
    if "artifacts" in silent:
        detail = "The folder ADAPTLAB_ARTIFACT_FOLDER is not there, or does not answer; look at it."
        return problem(STORE_UNAVAILABLE, detail, headers={"Retry-After": str(RETRY_SECONDS)})
    return json_answer(Health(status="ready", degraded=silent))


@description.get("/openapi.json")
@needs("person")
def get_description(request: Request) -> Response:
    """Get the OpenAPI document."""
    kept = request.app.state
    if getattr(kept, "description", None) is None:
        kept.description = bytes(JSONResponse(request.app.openapi()).body)
    return Response(kept.description, media_type="application/json")
