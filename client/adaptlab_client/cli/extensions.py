"""Commands of other packages, found by entry point and loaded when used."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path

import typer

from adaptlab_client.cli.exits import UsageError

GROUP = "adaptlab.commands"
DISTRIBUTION = "adaptlab"
# The extra that each of our own packages needs; one wheel contains them all.
EXTRAS = {
    "adaptlab_api": "server",
    "adaptlab_db": "server",
    "adaptlab_stack": "stack",
    "adaptlab_worker": "worker",
}


def extensions() -> dict[str, EntryPoint]:
    """Return the usable commands of other packages, without loading them."""
    return {
        point.name: point for point in every_extension() if not missing_requirements(_extra(point))
    }


def every_extension() -> list[EntryPoint]:
    """Return all commands of other packages, with those whose extra is missing."""
    return sorted(entry_points(group=GROUP), key=lambda point: point.name)


def is_ours(point: EntryPoint) -> bool:
    """Return True if the command comes with an extra of this package."""
    return _extra(point) is not None


def load(point: EntryPoint) -> typer.Typer:
    """Load a command as a Typer app; raises `UsageError` if it cannot."""
    try:
        command: object = point.load()
    except ImportError as error:
        extra = _extra(point)
        hint = f" Install it with: pip install '{DISTRIBUTION}[{extra}]'" if extra else ""
        raise UsageError(f"`adaptlab {point.name}` is not installed: {error}.{hint}") from error
    if isinstance(command, typer.Typer):
        return command
    if not callable(command):
        raise UsageError(f"`adaptlab {point.name}` is neither a Typer app nor a function.")
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(point.name)(command)
    return app


def summary(point: EntryPoint) -> str:
    """Return the first line of the command's docstring, without importing it."""
    source = _source(point.module)
    if source is None:
        return f"(from {point.module})"
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == point.attr:
            return (ast.get_docstring(node) or "").partition("\n")[0]
    return f"(from {point.module})"


def missing_requirements(extra: str | None, package: str = DISTRIBUTION) -> tuple[str, ...]:
    """Return the packages of one of our extras that are not installed."""
    if extra is None:
        return ()
    return tuple(name for name in _requirements(extra, package) if not _installed(name))


def _requirements(extra: str, package: str) -> Iterator[str]:
    for line in _lines(package):
        requirement, _, marker = line.partition(";")
        if not re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", marker):
            continue
        name, extras = _split(requirement)
        if name != package:
            yield name
        for nested in extras if name == package else ():
            yield from _requirements(nested, package)


@cache
def _lines(package: str) -> tuple[str, ...]:
    """Return the requirements of a package, which take long to parse."""
    return tuple(distribution(package).requires or ())


def _split(requirement: str) -> tuple[str, list[str]]:
    """Return name and extras of a requirement such as `celery[redis]>=5`."""
    match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", requirement)
    assert match is not None
    return match[1], [part.strip() for part in (match[2] or "").split(",") if part.strip()]


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _extra(point: EntryPoint) -> str | None:
    return EXTRAS.get(point.module.partition(".")[0])


def _source(module: str) -> Path | None:
    """Return the path of a module's source.

    `importlib.util.find_spec` would import its package.
    """
    path = None
    spec = None
    for index in range(module.count(".") + 1):
        name = ".".join(module.split(".")[: index + 1])
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None
