"""Routes that check a request before they run, and their routers.

FastAPI's two other ways cost every request about 500 calls each: it solves dependencies shared by
all routes one by one, and it searches nested routers again on every level.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from adaptlab_api.requests.bodies import body_schemas
from adaptlab_api.requests.describing import body_of
from adaptlab_api.requests.parameters import QueryParameters
from adaptlab_api.requests.rules import Rule, may_call, rule_of

API_PREFIX = "/v1"

# Any: what a coroutine is sent and throws, in FastAPI's own type.
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ClosedRoute(APIRoute):
    """A route for callers with its permission; closed if it has none."""

    @cached_property
    def rule(self) -> Rule | None:
        """The permission that a caller needs; None closes the route."""
        return rule_of(self.endpoint)

    @cached_property
    def _beginning(self) -> str:
        return self.path.partition("{")[0]

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return FastAPI's match, after a cheap check that excludes most routes."""
        if not scope["path"].startswith(self._beginning):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Handler:
        """Return FastAPI's handler, preceded by the check."""
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            self.check(request)
            return await handle(request)

        return checked

    def check(self, request: Request) -> None:
        """Raise an error for a request that must not reach the route.

        The error is `Refused` or `InvalidSpec`.
        """
        may_call(request, self.rule)


class ApiRoute(ClosedRoute):
    """A route below `/v1`, which refuses unknown query parameters.

    Attributes:
        bodies: the schemas that its body can have, by their names in the description.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # Any: the handlers and options are FastAPI's.
        super().__init__(path, endpoint, **options)
        self.bodies = dict(body_schemas(self.dependant))
        if self.bodies:
            self.openapi_extra = body_of(*self.bodies)

    @cached_property
    def _parameters(self) -> QueryParameters:
        return QueryParameters.of(self.dependant)

    def check(self, request: Request) -> None:
        """Raise for a missing permission, then for invalid parameters."""
        super().check(request)
        if request.query_params:
            self._parameters.check(request.query_params)


def operation_id(route: APIRoute) -> str:
    """Return the operation id of a route: the name of its function."""
    return route.name


def modules_of(package: ModuleType, order: Sequence[str] = ()) -> Iterator[ModuleType]:
    """Import and yield the modules of a package, in `order`, then by name."""
    names = sorted(module.name for module in iter_modules(package.__path__))
    for name in sorted(names, key=lambda name: order.index(name) if name in order else len(order)):
        yield import_module(f"{package.__name__}.{name}")


def routers_of(module: ModuleType) -> tuple[APIRouter, ...]:
    """Return the routers that a module defines, in their order."""
    return tuple(value for value in vars(module).values() if isinstance(value, APIRouter))


def api_router(prefix: str = "", *, tag: str | None = None) -> APIRouter:
    """Return a router of routes below `/v1`."""
    return APIRouter(
        prefix=API_PREFIX + prefix,
        tags=[tag] if tag else None,
        route_class=ApiRoute,
        generate_unique_id_function=operation_id,
    )


def closed_router(prefix: str = "") -> APIRouter:
    """Return a router of pages and other routes without a description."""
    return APIRouter(prefix=prefix, route_class=ClosedRoute, include_in_schema=False)
