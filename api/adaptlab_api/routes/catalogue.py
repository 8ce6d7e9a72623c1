"""`/v1/methods`, `/v1/tasks` and `/v1/families`: what can be asked for."""

from fastapi import APIRouter
from starlette.responses import Response

from adaptlab_answers.models import Families, FamilyEntry, MethodEntry, Methods, PlugIn, Tasks
from adaptlab_api.answers.answers import json_answer
from adaptlab_api.requests.describing import failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.routes.base_models import Named
from adaptlab_services.models import catalogue


def catalogue_router() -> APIRouter:
    """The routes of the catalogue."""
    router = api_router(tag="catalogue")
    add, found = router.add_api_route, failures(404)
    add("/methods", list_methods, response_model=Methods, responses=failures())
    add("/methods/{name}", get_method, response_model=MethodEntry, responses=found)
    add("/tasks", list_tasks, response_model=Tasks, responses=failures())
    add("/tasks/{name}", get_task, response_model=PlugIn, responses=found)
    add("/families", list_families, response_model=Families, responses=failures())
    add("/families/{name}", get_family, response_model=FamilyEntry, responses=found)
    return router


def list_methods() -> Response:
    """List the adaptation methods, with the schema of their knobs."""
    return json_answer(catalogue.methods())


def get_method(name: Named) -> Response:
    """Get one adaptation method."""
    return json_answer(catalogue.method(name))


def list_tasks() -> Response:
    """List the tasks, with the schema of their knobs."""
    return json_answer(catalogue.tasks())


def get_task(name: Named) -> Response:
    """Get one task."""
    return json_answer(catalogue.task(name))


def list_families() -> Response:
    """List the families of base models, with the schema of their knobs."""
    return json_answer(catalogue.families())


def get_family(name: Named) -> Response:
    """Get one family."""
    return json_answer(catalogue.family(name))
