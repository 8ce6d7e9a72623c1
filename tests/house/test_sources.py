"""Rules that the parsed sources decide.

They are in one file so that each source is parsed once.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.task import TASKS, Task

ROOT = Path(__file__).parents[2]
PRODUCT = ("answers", "api", "client", "core", "db", "services", "stack", "worker")
LONGEST_LINE = 72
HELP = ("client/adaptlab_client/cli/", "api/adaptlab_api/routes/", "/cli.py")
"""Docstrings that the command line or the API's description shows, wrapped as that needs."""
MOST_ASSERTIONS = 9
AWAITED = "async def test_page(page):\n" + "    await expect(page).to_be_visible()\n" * 5
PLAIN = "    expect(page).to_be_visible()\n    assert page\n"
ASKING = tuple(
    f"core/adaptlab/{room}/"
    for room in (
        *("plugins", "methods", "tasks", "families", "weights"),
        *("engine", "exchange", "theory", "theory_checks"),
    )
)
"""Those take items and weights apart, and may ask a plug-in what it is."""
NARROWED = {
    "services/adaptlab_services/models/token_checks.py",  # texts are checked record by record
    "services/adaptlab_services/models/token_process.py",
    "services/adaptlab_services/results/item_pictures.py",  # only image tasks draw pictures
}


@cache
def trees_of(folder: str) -> dict[str, ast.Module]:
    """The parsed sources of a folder, by place."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text()) for file in files}


def trees(*folders: str) -> dict[str, ast.Module]:
    return {place: tree for folder in folders for place, tree in trees_of(folder).items()}


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict[str, list[str]](list)
    for place, tree in trees(*PRODUCT).items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place)
    assert len(places) > 1_000, "the search finds them"
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def long_first_lines(tree: ast.Module) -> Iterator[str]:
    """Yield each line that is too long, with its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").split("\n", 1)[0]
            if len(first) > LONGEST_LINE:
                yield f"{getattr(node, 'lineno', 1)}: {first}"


def test_first_lines_are_short() -> None:
    sources = trees(*PRODUCT, "bench", "tests").items()
    judged = ((place, tree) for place, tree in sources if not any(part in place for part in HELP))
    assert [f"{place}:{line}" for place, tree in judged for line in long_first_lines(tree)] == []


def test_a_line_may_be_as_long_as_the_rule_says_and_no_longer() -> None:
    fits = ast.parse(f'"""{"a" * LONGEST_LINE}\n\n{"b" * 90}"""')
    assert not [*long_first_lines(fits)]
    exceeds = ast.parse(f'def f():\n    """{"a" * (LONGEST_LINE + 1)}"""')
    assert [*long_first_lines(exceeds)] == [f"1: {'a' * 73}"]


def large_tests(tree: ast.Module) -> Iterator[str]:
    """Yield a sentence per test function that has too many assertions."""
    for node in ast.walk(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.name.startswith("test_"):
            count = sum(map(is_assertion, ast.walk(node)))
            if count > MOST_ASSERTIONS:
                place = f"{node.lineno}: {node.name}"
                yield f"{place} has {count} assertions; split it by what it shows"


def is_assertion(node: ast.AST) -> bool:
    """Return True for `assert` and for the browser tests' `expect(...)`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "expect"
    return isinstance(node, ast.Assert)


def test_no_test_has_ten_assertions() -> None:
    """A test shows one thing; one with ten assertions shows several."""
    large = (f"{place}:{it}" for place, tree in trees("tests").items() for it in large_tests(tree))
    assert [*large] == []


def test_asserted_and_expected_facts_are_counted_alike() -> None:
    assert [*large_tests(ast.parse(AWAITED + PLAIN * 2))] == []
    (text,) = large_tests(ast.parse(AWAITED + PLAIN * 2 + "    assert page\n"))
    assert text == "1: test_page has 10 assertions; split it by what it shows"


def kinds(base: type) -> Iterator[str]:
    """Yield the names of a class and of all classes below it."""
    yield base.__name__
    for below in base.__subclasses__():
        yield from kinds(below)


def asks(tree: ast.Module, names: set[str]) -> bool:
    """Return True if the source tests for one of these classes."""
    return any(
        names & {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "issubclass")
    )


def test_plugins_are_not_asked_what_they_are() -> None:
    for registry in (METHODS, TASKS, FAMILIES):
        registry.names()
    names = {name for base in (Method, Task, Family) for name in kinds(base)}
    asking = {place for place, tree in trees(*PRODUCT).items() if asks(tree, names)}
    assert {place for place in asking if not place.startswith(ASKING)} == NARROWED


def test_a_question_is_found() -> None:
    assert asks(ast.parse("x = isinstance(task, TextTask | ImageTask)"), {"ImageTask"})
    assert not asks(ast.parse("x = task.needs_tokeniser"), {"ImageTask"})
