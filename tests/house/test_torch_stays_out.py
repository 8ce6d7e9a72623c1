"""House rule 3: what serves requests never loads torch."""

import json
from collections.abc import Callable

import pytest

# Imports every module of a package but the ones skipped, and prints the heavy ones that came along.
PROBE = """
import importlib, json, pkgutil, sys
package, skipped = {package!r}, {skipped!r}

def walk(name):
    module = importlib.import_module(name)
    for found in pkgutil.iter_modules(getattr(module, "__path__", []), name + "."):
        leaf = found.name.rpartition(".")[2]
        # `__main__` and Alembic's `env` do their work when imported: that is what they are for.
        if found.name not in skipped and leaf not in ("__main__", "env"):
            walk(found.name)

walk(package)
heavy = ("torch", "transformers", "peft", "safetensors.torch", "adaptlab.engine", "adaptlab.theory")
print(json.dumps([name for name in heavy if name in sys.modules]))
"""


def heavy_modules(
    fresh_python: Callable[[str], str], package: str, skipped: tuple[str, ...] = ()
) -> list[str]:
    return json.loads(fresh_python(PROBE.format(package=package, skipped=skipped)))


@pytest.mark.parametrize(
    "package",
    [
        "adaptlab_answers",
        "adaptlab_api",
        "adaptlab_client",
        "adaptlab_db",
        "adaptlab_services",
        "adaptlab_stack",
    ],
)
def test_no_module_loads_torch(fresh_python: Callable[[str], str], package: str) -> None:
    assert heavy_modules(fresh_python, package) == []


def test_the_parent_process_of_the_worker_does_not_load_torch(
    fresh_python: Callable[[str], str],
) -> None:
    assert heavy_modules(fresh_python, "adaptlab_worker", ("adaptlab_worker.trainer",)) == []


def test_core_loads_torch_only_in_its_engine_and_theory(fresh_python: Callable[[str], str]) -> None:
    skipped = ("adaptlab.engine", "adaptlab.theory")
    assert heavy_modules(fresh_python, "adaptlab", skipped) == []


def test_the_methods_tasks_and_families_are_listed_without_torch(
    fresh_python: Callable[[str], str],
) -> None:
    packages = ("adaptlab.methods", "adaptlab.tasks", "adaptlab.families")
    assert [heavy_modules(fresh_python, package) for package in packages] == [[], [], []]


def test_the_probe_sees_torch_where_it_is(fresh_python: Callable[[str], str]) -> None:
    found = heavy_modules(fresh_python, "adaptlab.engine")
    assert "torch" in found
    assert "adaptlab.engine" in found
