"""Discovery of methods, tasks and families: a decorator registers, modules are found by looking."""

import importlib
import pkgutil
import threading
from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from adaptlab.errors import AdaptlabError, Problem, UnknownName

T = TypeVar("T")
Plugin = TypeVar("Plugin")


class Registry(Generic[T]):
    """Names of one kind, found in one package, at any depth, and in the entry points of its name.

    A plug-in cannot take a name that is already taken.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}
        self._looking = threading.RLock()
        self._began = self._discovered = False

    def register(self, name: str) -> Callable[[Plugin], Plugin]:
        """Make the decorated object, which must be a `T`, available under `name`."""

        def keep(entry: Plugin) -> Plugin:
            if name in self._entries and self._entries[name] is not entry:
                raise AdaptlabError(f"The {self.kind} {name!r} is registered twice.")
            self._entries[name] = cast("T", entry)  # keeps the type narrower than T for callers
            return entry

        return keep

    def names(self) -> tuple[str, ...]:
        """All registered names, sorted."""
        self._discover()
        return tuple(sorted(self._entries))

    def get(self, name: str, pointer: str = "") -> T:
        """The entry called `name`; raises `UnknownName` at `pointer` when there is none."""
        self._discover()
        if name not in self._entries:
            raise UnknownName(
                Problem(
                    pointer=pointer,
                    code=f"unknown_{self.kind}",
                    detail=f"There is no {self.kind} named {name!r}.",
                    allowed=self.names(),
                    nearest=tuple(get_close_matches(name, self.names(), n=3, cutoff=0.5)),
                )
            )
        return self._entries[name]

    def _discover(self) -> None:
        """Import the plug-ins once; other threads wait for all of them."""
        if self._discovered:
            return
        with self._looking:
            if self._began:  # done, or a plug-in that is being imported asks for another
                return
            self._began = True
            package = importlib.import_module(self._package)
            for module in pkgutil.walk_packages(package.__path__, f"{self._package}."):
                importlib.import_module(module.name)
            for point in entry_points(group=self._package):
                point.load()
            self._discovered = True
