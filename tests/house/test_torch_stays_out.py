"""House rule 3: what serves requests never loads torch."""

import json
from collections.abc import Callable, Mapping

import pytest

# Imports every module of each package but the ones skipped, one package after the other, and prints
# the heavy modules that have come along by then.
PROBE = """
import importlib, json, pkgutil, sys
packages, skipped = {packages!r}, {skipped!r}

def walk(name):
    module = importlib.import_module(name)
    for found in pkgutil.iter_modules(getattr(module, "__path__", []), name + "."):
        leaf = found.name.rpartition(".")[2]
        # `__main__` and Alembic's `env` do their work when imported: that is what they are for.
        if found.name not in skipped and leaf not in ("__main__", "env"):
            walk(found.name)

heavy = ("torch", "transformers", "peft", "safetensors.torch", *{ours!r})
came = {{}}
for package in packages:
    walk(package)
    came[package] = [name for name in heavy if name in sys.modules]
print(json.dumps(came))
"""
LIGHT = (
    *("adaptlab.methods", "adaptlab.tasks", "adaptlab.families", "adaptlab"),
    *("adaptlab_answers", "adaptlab_client", "adaptlab_db", "adaptlab_services"),
    *("adaptlab_api", "adaptlab_worker", "adaptlab_stack"),
)
"""Every package, the lower ones first: each is judged by what it adds to those before it."""
OURS = ("adaptlab.engine", "adaptlab.running", "adaptlab.theory")
HEAVY = (*OURS, "adaptlab_worker.trainer.trainer")
"""What the worker's trainers load, and nobody else."""


def heavy_modules(
    fresh_python: Callable[[str], str], packages: tuple[str, ...], skipped: tuple[str, ...] = ()
) -> Mapping[str, list[str]]:
    return json.loads(fresh_python(PROBE.format(packages=packages, skipped=skipped, ours=OURS)))


@pytest.fixture(scope="module")
def loaded(fresh_python: Callable[[str], str]) -> Mapping[str, list[str]]:
    """The heavy modules that are loaded after each package."""
    return heavy_modules(fresh_python, LIGHT, HEAVY)


@pytest.mark.parametrize("package", LIGHT)
def test_no_module_loads_torch(loaded: Mapping[str, list[str]], package: str) -> None:
    assert loaded[package] == []


@pytest.mark.long("tests of tests")
def test_the_probe_sees_torch_where_it_is(fresh_python: Callable[[str], str]) -> None:
    packages = ("adaptlab.plugins", "adaptlab.engine")
    found = heavy_modules(fresh_python, packages)
    assert found["adaptlab.plugins"] == []
    assert {"torch", "adaptlab.engine"} <= set(found["adaptlab.engine"])
