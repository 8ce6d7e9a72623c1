"""Signatures, fields and docstrings, parsed without running the source."""

import ast
import inspect
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


class PublicMember(NamedTuple):
    """A public function, property or field, with its signature and docstring."""

    name: str
    text: str
    about: str


class ClassSource(NamedTuple):
    """A class as written in its file."""

    name: str
    bases: tuple[str, ...]
    about: str
    constructor: str
    fields: tuple[PublicMember, ...]
    methods: tuple[PublicMember, ...]


def class_source(module: str, name: str) -> ClassSource:
    """Return a class of a module, given by its full name."""
    (node,) = [
        item for item in _tree(module).body if isinstance(item, ast.ClassDef) and item.name == name
    ]
    functions = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    constructor = functions.pop("__init__", None)
    return ClassSource(
        name,
        tuple(ast.unparse(base) for base in node.bases),
        _about(node),
        _signature(constructor) if constructor else "()",
        tuple(_fields(node)),
        tuple(
            PublicMember(method, method + _call(function), _about(function))
            for method, function in functions.items()
            if not method.startswith("_")
        ),
    )


def home_of(module: str, name: str) -> str:
    """Return the module that `module` imports `name` from, or `module` itself."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return node.module or ""
    return module


def _tree(module: str) -> ast.Module:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _fields(node: ast.ClassDef) -> Iterator[PublicMember]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            name = item.target.id
            if not name.startswith("_"):
                yield PublicMember(name, _plain(item.annotation), "")


def _call(node: ast.FunctionDef) -> str:
    """Return the text after the name: signature, or type of a property."""
    if any(ast.unparse(decorator) == "property" for decorator in node.decorator_list):
        return f": {_plain(node.returns)}"
    return _signature(node)


def _signature(node: ast.FunctionDef) -> str:
    """Return the arguments without `self`, and the return type."""
    arguments, positional = node.args, [*node.args.posonlyargs, *node.args.args]
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
    parts = [
        _argument(argument, default)
        for argument, default in zip(positional, defaults, strict=True)
        if argument.arg not in ("self", "cls")
    ]
    if arguments.vararg or arguments.kwonlyargs:
        parts.append(f"*{_argument(arguments.vararg, None) if arguments.vararg else ''}")
    parts += [
        _argument(argument, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    parts += [f"**{_argument(arguments.kwarg, None)}"] if arguments.kwarg else []
    returned = "" if node.name == "__init__" else f" -> {_plain(node.returns)}"
    return f"({', '.join(parts)}){returned}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    annotation = f": {_plain(argument.annotation)}" if argument.annotation else ""
    return f"{argument.arg}{annotation}" + (f" = {ast.unparse(default)}" if default else "")


def _plain(annotation: ast.expr | None) -> str:
    return "None" if annotation is None else _unquoted(ast.unparse(annotation))


def _unquoted(text: str) -> str:
    """Remove the quotes around names that are imported for type checkers only."""
    return text.replace("'NDArray[np.float16]'", "NDArray[np.float16]").replace(
        "'Client'", "Client"
    )


def _about(node: ast.ClassDef | ast.FunctionDef) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")
