"""Nobody asks a method, task or family what it is.

The engine, the theory and exchange formats may, because they take items and weights apart.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.task import TASKS, Task

PACKAGES = ("answers", "api", "client", "core", "db", "services", "stack", "worker")
OWN = ("plugins", "methods", "tasks", "families", "weights")
HALVES = ("engine", "exchange", "theory", "theory_checks")
NARROWED = {
    "services/adaptlab_services/models/token_checks.py",  # texts are checked record by record
    "services/adaptlab_services/models/token_process.py",
    "services/adaptlab_services/results/item_pictures.py",  # only image tasks draw pictures
}


def kinds(base: type) -> Iterator[str]:
    """Yield the names of a class and of all classes below it."""
    yield base.__name__
    for below in base.__subclasses__():
        yield from kinds(below)


def asked(source: str, names: set[str]) -> list[int]:
    """Return the lines that test for one of these classes."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "issubclass")
        and names & {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
    ]


def test_plugins_are_not_asked_what_they_are(repository: Path) -> None:
    for registry in (METHODS, TASKS, FAMILIES):
        registry.names()
    names = {name for base in (Method, Task, Family) for name in kinds(base)}
    allowed = [f"core/adaptlab/{room}/" for room in (*OWN, *HALVES)]
    files = [path for package in PACKAGES for path in (repository / package).rglob("*.py")]
    places = {path.relative_to(repository).as_posix(): path for path in files}
    found = {
        place
        for place, path in places.items()
        if not place.startswith(tuple(allowed)) and asked(path.read_text(), names)
    }
    assert found == NARROWED


def test_a_question_is_found() -> None:
    assert asked("x = isinstance(task, TextTask | ImageTask)", {"ImageTask"}) == [1]
    assert not asked("x = task.needs_tokeniser", {"ImageTask"})
