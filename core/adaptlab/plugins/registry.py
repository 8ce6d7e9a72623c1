"""Registration by decorator and discovery of methods, tasks and families."""

import importlib
import json
import pkgutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from adaptlab.errors import AdaptlabError, InvalidSpec, Problem, UnknownName
from adaptlab.validation import validation_problems

T = TypeVar("T")
Plugin = TypeVar("Plugin")
M = TypeVar("M", bound=BaseModel)


class Registry(Generic[T]):
    """Plug-ins of one kind by name.

    They are discovered in one package, at any depth, and in the entry points of the package's name.
    A name that is already registered cannot be used again. `elsewhere` returns a sentence about a
    name that other tools use, and the nearest one here.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        elsewhere: Callable[[str], tuple[str, str] | None] = lambda _: None,
    ) -> None:
        self.kind = kind
        self._elsewhere = elsewhere
        self._package = package
        self._entries: dict[str, T] = {}
        self._looking = threading.RLock()
        self._began = self._discovered = False

    def register(self, name: str) -> Callable[[Plugin], Plugin]:
        """Return a decorator that registers an object, a `T`, under `name`."""

        def keep(entry: Plugin) -> Plugin:
            if name in self._entries and self._entries[name] is not entry:
                raise AdaptlabError(
                    f"The {self.kind} {name!r} is registered twice. Give one of them another name."
                )
            self._entries[name] = cast("T", entry)  # callers keep the narrower type
            return entry

        return keep

    def names(self) -> tuple[str, ...]:
        """Return all registered names, sorted."""
        self._discover()
        return tuple(sorted(self._entries))

    def get(self, name: str, pointer: str = "") -> T:
        """Return the entry with this name.

        Raises:
            UnknownName: there is no such entry; the problem has the pointer `pointer`.
        """
        self._discover()
        if name not in self._entries:
            raise UnknownName(self._unknown(name, pointer))
        return self._entries[name]

    def _unknown(self, name: str, pointer: str) -> Problem:
        known = self._elsewhere(name)
        similar = get_close_matches(name, self.names(), n=3, cutoff=0.5)
        return Problem(
            pointer=pointer,
            code=f"unknown_{self.kind}",
            detail=f"There is no {self.kind} named {name!r}." + (f" {known[0]}" if known else ""),
            allowed=self.names(),
            nearest=(known[1],) if known else tuple(similar),
        )

    def _discover(self) -> None:
        """Import all plug-ins once; other threads wait until that is done."""
        if self._discovered:
            return
        with self._looking:
            if self._began:  # done meanwhile, or called by a plug-in that is being imported
                return
            self._began = True
            package = importlib.import_module(self._package)
            for module in pkgutil.walk_packages(package.__path__, f"{self._package}."):
                importlib.import_module(module.name)
            for point in entry_points(group=self._package):
                point.load()
            self._discovered = True


@dataclass(frozen=True, slots=True)
class ByName:
    """Annotation of a field with any plug-in of a registry.

    It annotates the plug-ins' base class. JSON is read by `by_name`, and every field is written.
    """

    registry: Registry[Any]  # Any: plug-ins of all kinds

    def __get_pydantic_core_schema__(
        self, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def read(value: object) -> BaseModel:
            return value if isinstance(value, source) else by_name(self.registry, value)

        written = core_schema.plain_serializer_function_ser_schema(as_json)
        return core_schema.no_info_plain_validator_function(read, serialization=written)


class Named(BaseModel):
    """The name in a configuration of a plug-in."""

    name: str


def by_name(registry: Registry[type[M]], value: object) -> M:
    """Return the plug-in of a configuration, by its `name`.

    Raises:
        UnknownName: the name is not registered.
        InvalidSpec: there is no name, or the plug-in does not accept the other members.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"Input should be the configuration of a {registry.kind}")
    document = dict(cast("Mapping[str, object]", value))
    try:
        plug_in = registry.get(Named.model_validate(document).name)
        return plug_in.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise InvalidSpec(*validation_problems(error.errors(), document)) from error


def as_json(plug_in: BaseModel) -> dict[str, object]:
    """Return the configuration of a plug-in as it is stored and sent."""
    return plug_in.model_dump(mode="json")
