"""JSON bodies, read strictly and described by a route's signature."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from pydantic import TypeAdapter

from adaptlab_api.requests.dependencies import json_bytes, valid

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body(Generic[T]):
    """The JSON body of a request and the type that it must have."""

    content: bytes
    adapter: TypeAdapter[T]

    def read(self) -> T:
        """Return the valid value; raises `Refused` or `InvalidSpec`."""
        return valid(self.adapter, self.content)


@dataclass(frozen=True, eq=False, slots=True)
class BodyReader:
    """A FastAPI dependency that returns a `Body`.

    Attributes:
        schemas: the schemas that a body can have, exactly one at a time, by their names in the
            description.
    """

    adapter: TypeAdapter[Any]  # Any: the annotation beside the reader has the type
    schemas: Mapping[str, TypeAdapter[Any]]

    async def __call__(self, request: Request) -> Body[Any]:
        """Return the body, which is read in the route's thread."""
        return Body(await json_bytes(request), self.adapter)


def json_body(form: Any, *alternatives: type, name: str = "") -> Any:  # Any: as `Depends` is typed
    """Return the dependency of a route that takes a JSON body.

    Args:
        form: the type of the body.
        alternatives: the classes of which the body is one, if `form` is a union.
        name: the name of the schema, if `form` is neither a class nor a union of `alternatives`.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(form)
    if alternatives:
        schemas = {model.__name__: TypeAdapter(model) for model in alternatives}
    else:
        schemas = {name or form.__name__: adapter}
    return Depends(BodyReader(adapter, schemas))


def body_schemas(dependant: Dependant) -> Iterator[tuple[str, TypeAdapter[Any]]]:
    """Yield name and type of every schema that the body of a route can have."""
    for dependency in dependant.dependencies:
        if isinstance(dependency.call, BodyReader):
            yield from dependency.call.schemas.items()
