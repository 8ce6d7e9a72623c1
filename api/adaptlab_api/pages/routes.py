"""The routes of the dashboard, collected from its wings."""

from functools import cache
from types import ModuleType

from starlette.routing import BaseRoute, Route

from adaptlab_api import pages
from adaptlab_api.pages.rendering.assets import load_assets
from adaptlab_api.pages.rendering.navigation import NavigationEntry, grouped
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.rendering.static_files import static_router
from adaptlab_api.requests.routing import modules_of


@cache
def page_renderer() -> Renderer:
    """Return the process's renderer.

    It has the navigation that the wings declare.
    """
    entries = (entry for module in _modules() for entry in _navigation(module))
    return Renderer.load(load_assets(), grouped(entries))


def page_routes() -> tuple[BaseRoute, ...]:
    """Return the routes of every page; none is part of the API's description.

    A fixed address comes before one with a parameter: `/jobs/new` before `/jobs/{job_id}`.
    """
    renderer = page_renderer()
    routers = (router for module in _modules() for router in module.routers(renderer))
    return tuple(sorted((route for router in routers for route in router.routes), key=_precedence))


def static_routes() -> tuple[BaseRoute, ...]:
    """Return the routes of the pages' own files and the chart library."""
    return tuple(static_router(load_assets()).routes)


@cache
def _modules() -> tuple[ModuleType, ...]:
    """Return the modules of all wings that define routers."""
    wings = (wing for wing in modules_of(pages) if hasattr(wing, "__path__"))
    modules = (module for wing in wings for module in modules_of(wing))
    return tuple(module for module in modules if hasattr(module, "routers"))


def _navigation(module: ModuleType) -> tuple[NavigationEntry, ...]:
    entry = getattr(module, "NAVIGATION", None)
    return () if entry is None else (entry,)


def _precedence(route: BaseRoute) -> tuple[bool, ...]:
    assert isinstance(route, Route)
    return tuple(part.startswith("{") for part in route.path.split("/"))
