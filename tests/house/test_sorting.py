"""`make test` has tests of every part, and what it leaves has a reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.sorting import long_tests

REASONS = {
    "ablation of a defence",
    "browser walks",
    "chaos at length",
    "every combination",
    "every door for every role",
    "every kernel",
    "every migration path",
    "large uploads and slow clients",
    "long trainings",
    "many bad inputs",
    "many simulated studies",
    "real MLflow",
    "real Trackio",
    "real Slurm",
    "real W&B",
    "recipes",
    "tests of tests",
    "walks through commands and documents",
}
PACKAGES = {
    "core": "adaptlab",
    "answers": "adaptlab_answers",
    "db": "adaptlab_db",
    "services": "adaptlab_services",
    "api": "adaptlab_api",
    "worker": "adaptlab_worker",
    "client": "adaptlab_client",
    "stack": "adaptlab_stack",
}


def long_marks(nodes: list[ast.expr]) -> Iterator[ast.Call]:
    """The marks that leave something to `make test-all`."""
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.long":
            yield node


def is_left(nodes: list[ast.expr]) -> bool:
    return any(not mark.keywords for mark in long_marks(nodes))


def has_short_tests(tree: ast.Module) -> bool:
    assigned = [
        one.value
        for one in tree.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark"
    ]
    functions = (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))
    tests = [one for one in functions if one.name.startswith("test_")]
    return not is_left(assigned) and any(not is_left(one.decorator_list) for one in tests)


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that a file imports, and the names that may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def parts(repository: Path) -> Iterator[str]:
    """The folders of the product that hold modules, as packages."""
    for folder, package in PACKAGES.items():
        for path in sorted((repository / folder / package).rglob("*.py")):
            inside = path.parent.relative_to(repository / folder)
            if path.name != "__init__.py":
                yield ".".join(inside.parts)


@pytest.fixture(scope="module")
def trees(repository: Path) -> list[ast.Module]:
    """The files of tests, parsed."""
    return [ast.parse(path.read_text()) for path in sorted((repository / "tests").rglob("*.py"))]


def last_words(part: str) -> tuple[str, str]:
    """The name of a last part, and its noun: `item_answers`, `answers`."""
    name = part.rpartition(".")[2]
    return name, name.rpartition("_")[2]


def words(tree: ast.Module) -> Iterator[str]:
    """The words of texts in a file: addresses, names of plug-ins, commands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value.replace("-", "_"))


def test_every_part_of_the_product_has_tests_that_are_not_long(
    repository: Path, trees: list[ast.Module]
) -> None:
    """Pages and plug-ins, which no test imports, are at least named."""
    short = [tree for tree in trees if has_short_tests(tree)]
    reached = {name.rpartition(".")[0] for tree in short for name in imported(tree)}
    missing = [part for part in dict.fromkeys(parts(repository)) if part not in reached]
    named = {part for tree in short for word in words(tree) for part in (word, *word.split("_"))}
    assert len(missing) < 23
    assert [part for part in missing if not named & {*last_words(part)}] == []


def test_what_is_left_to_the_long_tests_has_a_reason(trees: list[ast.Module]) -> None:
    marks = (mark for tree in trees for mark in long_marks([*decorations(tree)]))
    reasons = {ast.literal_eval(mark.args[0]) for mark in marks}
    assert reasons == REASONS
    # Those of single parameters would be in neither part.
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    cases = [call for call in calls if ast.unparse(call.func) == "pytest.param"]
    assert not [*long_marks([*cases])]


def decorations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from node.decorator_list
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            yield node.value


def case(number: int, mark: pytest.MarkDecorator, **params: object) -> pytest.Item:
    """One case of a test, as pytest collects it."""
    spec = SimpleNamespace(params=params, indices=dict.fromkeys(params, number))
    item = SimpleNamespace(
        name=f"test[{number}]",
        originalname="test",
        parent=None,
        callspec=spec,
        get_closest_marker=lambda name: mark.mark if name == "long" else None,
    )
    return cast("pytest.Item", item)


def numbers(cases: list[pytest.Item], left: Iterator[pytest.Item]) -> list[int]:
    """The numbers of the cases that stay in `make test`."""
    names = {one.name for one in left}
    return [number for number, one in enumerate(cases) if one.name not in names]


@pytest.mark.parametrize(("but", "kept"), [(0, []), (2, [0, 1]), ("each", [0, 3])])
def test_some_cases_stay(but: Any, kept: list[int]) -> None:
    mark = pytest.mark.long("every combination", but=but)
    pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    cases = [case(i, mark, one=one, other=other) for i, (one, other) in enumerate(pairs)]
    assert numbers(cases, long_tests(cases)) == kept


def test_a_module_of_long_tests_alone_is_recognised() -> None:
    every = 'pytestmark = pytest.mark.long("recipes")\ndef test_a(): ...\n'
    some = '@pytest.mark.long("recipes", but=1)\ndef test_a(): ...\n'
    assert not has_short_tests(ast.parse(every))
    assert has_short_tests(ast.parse(some))
    assert not has_short_tests(ast.parse(some.replace(", but=1", "")))
