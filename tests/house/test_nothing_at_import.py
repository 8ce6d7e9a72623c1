"""House rule 16: no module holds an engine, a client or an app."""

import json
from collections.abc import Callable

import pytest

HOUSE = (
    "adaptlab",
    "adaptlab_answers",
    "adaptlab_api",
    "adaptlab_client",
    "adaptlab_db",
    "adaptlab_services",
    "adaptlab_stack",
    "adaptlab_worker",
)

# Defines `live(modules)`: names of module-level objects that hold a connection, an app or settings.
FINDER = """
import importlib, json, pkgutil, sys, threading, types
import celery, httpx, pydantic_settings, redis, sqlalchemy, sqlalchemy.orm, starlette.applications
LIVE = (
    celery.Celery, httpx.Client, httpx.AsyncClient, pydantic_settings.BaseSettings, redis.Redis,
    sqlalchemy.Engine, sqlalchemy.Connection, sqlalchemy.orm.Session, sqlalchemy.orm.sessionmaker,
    starlette.applications.Starlette, threading.Thread,
)

def live(modules):
    return sorted(
        f"{module.__name__}.{name}"
        for module in modules for name, value in vars(module).items() if isinstance(value, LIVE)
    )
"""

WALK = """
def walk(name):
    module = importlib.import_module(name)
    yield module
    for found in pkgutil.iter_modules(getattr(module, "__path__", []), name + "."):
        # `__main__` and Alembic's `env` do their work when imported: that is what they are for.
        if found.name.rpartition(".")[2] not in ("__main__", "env"):
            yield from walk(found.name)

before = threading.active_count()
modules = [module for package in {house!r} for module in walk(package)]
print(json.dumps({{
    "modules": len(modules), "live": live(modules), "threads": threading.active_count() - before,
}}))
"""


@pytest.mark.long("every combination")
def test_no_module_holds_a_live_object_or_starts_a_thread(
    fresh_python: Callable[[str], str],
) -> None:
    found = json.loads(fresh_python(FINDER + WALK.format(house=HOUSE)))
    assert found["modules"] > len(HOUSE)
    assert found["live"] == []
    assert found["threads"] == 0


@pytest.mark.long("tests of tests")
def test_a_live_object_at_module_level_is_found(fresh_python: Callable[[str], str]) -> None:
    module = """
bad = types.ModuleType("bad")
bad.engine = sqlalchemy.create_engine("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
bad.number = 3
print(json.dumps(live([bad])))
"""
    assert json.loads(fresh_python(FINDER + module)) == ["bad.engine"]
