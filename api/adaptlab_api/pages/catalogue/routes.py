"""Routes of methods, tasks and families."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from fastapi import APIRouter
from fastapi.responses import Response

from adaptlab_answers.models import PlugIn
from adaptlab_api.pages.rendering.formats import pretty
from adaptlab_api.pages.rendering.navigation import MODELS, NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.errors import Absent
from adaptlab_services.models import catalogue

HERE = "/methods"
NAVIGATION = NavigationEntry(9, "Methods", HERE, MODELS)
LIMITS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "exclusiveMaximum": "below",
}
NOT_HERE = (
    "The name may be mistyped, or may belong to a plug-in that is not installed on this server."
)


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob of a plug-in, as its schema describes it."""

    name: str
    values: str
    default: str
    means: str


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (catalogue_routes(renderer),)


def catalogue_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of methods, tasks and families."""
    router = closed_router()

    @router.get("/methods")
    @needs("reader")
    def methods_page(principal: ReaderDep) -> Response:
        methods = catalogue.methods().data
        groups = tuple(dict.fromkeys(method.group for method in methods))
        shown = {"principal": principal, "here": HERE, "methods": methods, "groups": groups}
        return renderer.page("methods.html", shown)

    @router.get("/tasks")
    @needs("reader")
    def tasks_page(principal: ReaderDep) -> Response:
        shown = {"principal": principal, "here": HERE, "plug_ins": catalogue.tasks().data}
        return renderer.page("plug-ins.html", {**shown, **TASKS})

    @router.get("/families")
    @needs("reader")
    def families_page(principal: ReaderDep) -> Response:
        shown = {"principal": principal, "here": HERE, "plug_ins": catalogue.families().data}
        return renderer.page("plug-ins.html", {**shown, **FAMILIES})

    @router.get("/methods/{name}")
    @needs("reader")
    def one_method(name: str, principal: ReaderDep) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            method = catalogue.method(name)
        except Absent:
            return renderer.fault(404, "There is no such method", NOT_HERE, shown)
        return renderer.page("method.html", {**shown, "method": method, "knobs": knobs(method)})

    @router.get("/tasks/{name}")
    @needs("reader")
    def one_task(name: str, principal: ReaderDep) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            task = catalogue.task(name)
        except Absent:
            return renderer.fault(404, "There is no such task", NOT_HERE, shown)
        values = {**shown, "task": task, "knobs": knobs(task), "schema": pretty(task.knobs)}
        return renderer.page("task.html", values)

    return router


TASKS: Mapping[str, object] = {
    "title": "Tasks",
    "about": "what models learn; an item is right if every counted token is",
    "place": "/tasks",
    "asked_by": "task",
}
FAMILIES: Mapping[str, object] = {
    "title": "Families",
    "about": "the architectures of base models",
    "place": None,
    "asked_by": None,
}


def knobs(plug_in: PlugIn) -> tuple[Knob, ...]:
    """Return the knobs of a plug-in, without its name."""
    return tuple(_knobs(plug_in.knobs))


def _knobs(schema: Mapping[str, object]) -> Iterator[Knob]:
    properties = _mapping(schema.get("properties"))
    required = cast("list[str]", schema.get("required", []))
    for name, value in properties.items():
        described = _mapping(value)
        if name == "name":
            continue
        default = "required" if name in required else _default(described)
        yield Knob(name, _values(described), default, str(described.get("description", "")))


def _default(described: Mapping[str, object]) -> str:
    return pretty(described["default"]) if "default" in described else ""


def _values(described: Mapping[str, object]) -> str:
    """Return the values of a knob, in words."""
    if "enum" in described:
        return " or ".join(str(value) for value in cast("list[object]", described["enum"]))
    if "const" in described:
        return str(described["const"])
    if "anyOf" in described:
        several = [_values(_mapping(option)) for option in cast("list[object]", described["anyOf"])]
        return " or ".join(dict.fromkeys(several))
    if "$ref" in described:
        return str(described["$ref"]).rpartition("/")[2]
    kind = {"null": "none", "boolean": "true or false"}.get(
        str(described.get("type")), str(described.get("type", "any"))
    )
    limits = [
        f"{word} {limit:,.12g}"
        for name, word in LIMITS.items()
        if isinstance(limit := described.get(name), int | float)
    ]
    return " ".join([kind, *limits])


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
