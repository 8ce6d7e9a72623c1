"""A test shows one thing; one with ten assertions shows several."""

import ast
from collections.abc import Iterator
from pathlib import Path

MOST_ASSERTIONS = 9
AWAITED = "async def test_page(page):\n" + "    await expect(page).to_be_visible()\n" * 5
PLAIN = "    expect(page).to_be_visible()\n    assert page\n"


def large_tests(source: str) -> Iterator[str]:
    """Yield a sentence per test function that has too many assertions."""
    for node in ast.walk(ast.parse(source)):
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


def test_no_test_has_ten_assertions(repository: Path) -> None:
    files = sorted((repository / "tests").rglob("test_*.py"))
    assert files
    large = [f"{path}:{text}" for path in files for text in large_tests(path.read_text())]
    assert not large, "\n".join(large)


def test_asserted_and_expected_facts_are_counted_alike() -> None:
    assert [*large_tests(AWAITED + PLAIN * 2)] == []
    (text,) = large_tests(AWAITED + PLAIN * 2 + "    assert page\n")
    assert text == "1: test_page has 10 assertions; split it by what it shows"
