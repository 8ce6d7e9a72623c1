"""Python source as a reference shows it: signatures, fields and docstrings, read and not run."""

import ast
import inspect
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


class Member(NamedTuple):
    """A public function, property or field: how it is written and what it is."""

    name: str
    text: str
    about: str


class ClassSource(NamedTuple):
    """A class as it stands in its file."""

    name: str
    bases: tuple[str, ...]
    about: str
    constructor: str
    fields: tuple[Member, ...]
    methods: tuple[Member, ...]


def class_source(module: str, name: str) -> ClassSource:
    """A class of a module, given by its full name."""
    (node,) = [
        one for one in _tree(module).body if isinstance(one, ast.ClassDef) and one.name == name
    ]
    functions = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    made = functions.pop("__init__", None)
    return ClassSource(
        name,
        tuple(ast.unparse(base) for base in node.bases),
        _about(node),
        _signature(made) if made else "()",
        tuple(_fields(node)),
        tuple(
            Member(each, each + _call(one), _about(one))
            for each, one in functions.items()
            if not each.startswith("_")
        ),
    )


def home_of(module: str, name: str) -> str:
    """The module from which `module` has the class `name`."""
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and name in [one.name for one in node.names]:
            return node.module or ""
    return module


def _tree(module: str) -> ast.Module:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return ast.parse(Path(found.origin).read_text(encoding="utf-8"))


def _fields(node: ast.ClassDef) -> Iterator[Member]:
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            name = one.target.id
            if not name.startswith("_"):
                yield Member(name, _plain(one.annotation), "")


def _call(node: ast.FunctionDef) -> str:
    """What stands behind the name: nothing for a property."""
    if any(ast.unparse(one) == "property" for one in node.decorator_list):
        return f": {_plain(node.returns)}"
    return _signature(node)


def _signature(node: ast.FunctionDef) -> str:
    """The arguments without `self`, and what is returned."""
    given, known = node.args, [*node.args.posonlyargs, *node.args.args]
    defaults = [*[None] * (len(known) - len(given.defaults)), *given.defaults]
    parts = [
        _argument(one, default)
        for one, default in zip(known, defaults, strict=True)
        if one.arg not in ("self", "cls")
    ]
    if given.vararg or given.kwonlyargs:
        parts.append(f"*{_argument(given.vararg, None) if given.vararg else ''}")
    parts += [
        _argument(one, default)
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    parts += [f"**{_argument(given.kwarg, None)}"] if given.kwarg else []
    returned = "" if node.name == "__init__" else f" -> {_plain(node.returns)}"
    return f"({', '.join(parts)}){returned}"


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    annotation = f": {_plain(one.annotation)}" if one.annotation else ""
    return f"{one.arg}{annotation}" + (f" = {ast.unparse(default)}" if default else "")


def _plain(annotation: ast.expr | None) -> str:
    return "None" if annotation is None else _unquoted(ast.unparse(annotation))


def _unquoted(text: str) -> str:
    """Without the quotes around names that are imported for type checkers only."""
    return text.replace("'NDArray[np.float16]'", "NDArray[np.float16]").replace(
        "'Client'", "Client"
    )


def _about(node: ast.ClassDef | ast.FunctionDef) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")
