"""Values that a process of tests looks up once, not in every test.

Each test has settings, an application and connections of its own. Finding out which variables the
settings are read from, and which versions are installed, took a fifth of a short test.
"""

from copy import deepcopy
from functools import cache, wraps
from importlib.metadata import Distribution
from typing import Any

from pydantic_settings import EnvSettingsSource

OF_THE_TEST = "pytest_current_test"
"""The variable that pytest sets to another value in every test; no setting."""


def look_up_once() -> None:
    """Have this process remember installed versions and read settings."""
    _remember_versions()
    _remember_environment()


def _remember_versions() -> None:
    """Read the metadata of each installed distribution once."""
    read = Distribution.version
    assert isinstance(read, property)
    assert read.fget is not None
    Distribution.from_name = staticmethod(cache(Distribution.from_name))
    setattr(Distribution, "version", property(cache(read.fget)))  # noqa: B010 - a property


def _remember_environment() -> None:
    """Read settings once from each state that the environment is in."""
    read = EnvSettingsSource.__call__
    known: dict[object, dict[str, Any]] = {}

    @wraps(read)
    def remembered(self: EnvSettingsSource) -> dict[str, Any]:
        if type(self) is not EnvSettingsSource:
            return read(self)
        variables = frozenset(item for item in self.env_vars.items() if item[0] != OF_THE_TEST)
        state = (self.settings_cls, variables)
        if state not in known:
            known[state] = read(self)
        return deepcopy(known[state])

    EnvSettingsSource.__call__ = remembered
