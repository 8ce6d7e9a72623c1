"""`/v1/methods`, `/v1/tasks` and `/v1/families`: the installed plug-ins."""

from starlette.responses import Response

from adaptlab_answers.models import Families, FamilyEntry, MethodEntry, Methods, PlugIn, Tasks
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.describing import failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.base_models import Named
from adaptlab_services.models import catalogue

router = api_router(tag="catalogue")


@router.get("/methods", response_model=Methods, responses=failures())
@needs("reader")
def list_methods() -> Response:
    """List the adaptation methods, with the schema of their knobs."""
    return json_answer(catalogue.methods())


@router.get("/methods/{name}", response_model=MethodEntry, responses=failures(404))
@needs("reader")
def get_method(name: Named) -> Response:
    """Get one adaptation method."""
    return json_answer(catalogue.method(name))


@router.get("/tasks", response_model=Tasks, responses=failures())
@needs("reader")
def list_tasks() -> Response:
    """List the tasks, with the schema of their knobs."""
    return json_answer(catalogue.tasks())


@router.get("/tasks/{name}", response_model=PlugIn, responses=failures(404))
@needs("reader")
def get_task(name: Named) -> Response:
    """Get one task."""
    return json_answer(catalogue.task(name))


@router.get("/families", response_model=Families, responses=failures())
@needs("reader")
def list_families() -> Response:
    """List the families of base models, with the schema of their knobs."""
    return json_answer(catalogue.families())


@router.get("/families/{name}", response_model=FamilyEntry, responses=failures(404))
@needs("reader")
def get_family(name: Named) -> Response:
    """Get one family."""
    return json_answer(catalogue.family(name))
