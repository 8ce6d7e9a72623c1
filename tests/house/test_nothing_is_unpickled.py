"""No code uses a format that can run code when it is read."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long("tests of tests")

FOLDERS = (
    *("answers", "api", "bench", "client", "core", "db", "examples"),
    *("services", "stack", "worker"),
)
MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
CALLS = {("torch", "load"), ("torch", "save")}


def offences(source: str) -> list[str]:
    """What in this source could unpickle, in words; an empty list if nothing.

    The linter forbids the imports too. This looks again because a comment can silence the linter.
    """
    return [found for node in ast.walk(ast.parse(source)) for found in _offence(node)]


def _offence(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (f"import {name.name}" for name in names if _root(name.name) in MODULES)
        case ast.ImportFrom(module=str(module)) if _root(module) in MODULES:
            yield f"from {module}"
        case ast.ImportFrom(module="torch", names=names):
            yield from (f"torch.{name.name}" for name in names if ("torch", name.name) in CALLS)
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if (owner, name) in CALLS:
            yield f"{owner}.{name}"
        case ast.keyword(arg="allow_pickle", value=value) if not _is_false(value):
            yield "allow_pickle"
        case ast.Constant(value="pickle"):  # as a Celery serialiser
            yield "'pickle'"


def _root(module: str) -> str:
    return module.partition(".")[0]


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def test_nothing_in_the_house_can_unpickle(repository: Path) -> None:
    files = [path for folder in FOLDERS for path in (repository / folder).rglob("*.py")]
    assert files
    found = {
        str(path.relative_to(repository)): told
        for path in files
        if (told := offences(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.pool",
        "import torch\ntorch.load('x')",
        "from torch import load",
        "np.load('x', allow_pickle=True)",
        "app.conf.accept_content = ['json', 'pickle']",
    ],
)
def test_code_that_could_unpickle_is_found(source: str) -> None:
    assert len(offences(source)) == 1


def test_plain_loading_is_no_offence() -> None:
    assert offences("import json\nnp.load('x', allow_pickle=False)\nmodel.load('x')") == []
