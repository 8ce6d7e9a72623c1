"""The first line of a docstring has at most 72 characters."""

import ast
from collections.abc import Iterator
from pathlib import Path

MOST = 72
PACKAGES = ("answers", "api", "client", "core", "db", "services", "stack", "worker")
SOURCES = (*PACKAGES, "bench", "tests")
HELP = ("client/adaptlab_client/cli/", "api/adaptlab_api/routes/", "/cli.py")
"""Docstrings that the command line or the API's description shows, wrapped as that needs."""


def long_first_lines(source: str) -> Iterator[str]:
    """Yield each line that is too long, with its place."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").split("\n", 1)[0]
            if len(first) > MOST:
                yield f"{getattr(node, 'lineno', 1)}: {first}"


def test_first_lines_are_short(repository: Path) -> None:
    files = [path for source in SOURCES for path in sorted((repository / source).rglob("*.py"))]
    assert files
    long = [
        f"{path}:{line}"
        for path in files
        if not any(part in path.as_posix() for part in HELP)
        for line in long_first_lines(path.read_text())
    ]
    assert not long, "\n".join(long)


def test_a_line_may_be_as_long_as_the_rule_says_and_no_longer() -> None:
    assert not [*long_first_lines(f'"""{"a" * MOST}\n\n{"b" * 90}"""')]
    assert [*long_first_lines(f'def f():\n    """{"a" * (MOST + 1)}"""')] == [f"1: {'a' * 73}"]
