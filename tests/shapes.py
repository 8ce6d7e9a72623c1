"""Run-time checks of tensor shapes, in tests only.

The engine declares shapes with the types of `adaptlab.engine.tensors`, which check nothing. Here
these become jaxtyping's types, and beartype checks the functions and dataclasses that use them.

jaxtyping's own import hook checks every call, which can take longer than a step of a tiny model.
Here a function is checked in its first calls of each test, and each combination of the arguments'
shapes once per module of tests.
"""

import ast
import dataclasses
import functools
import importlib.machinery
import inspect
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import CodeType, FunctionType, ModuleType
from typing import Any, get_args

import beartype
import jaxtyping

from adaptlab.engine import tensors

ENGINE = "adaptlab.engine."
FIRST_CALLS = 25  # of a function in a test, more than in a forward pass of a small model
KNOWN = 4  # calls that one counts for whose shapes have been checked
DECORATOR = "_with_checked_shapes"


def check_shapes() -> None:
    """Have modules of the engine that are imported from now on check shapes."""
    for name in tensors.__all__:
        setattr(tensors, name, getattr(jaxtyping, name))
    sys.meta_path.insert(0, _Finder())


def begin_module() -> None:
    """Forget which combinations of shapes have been checked."""
    for checks in _CHECKS:
        checks.passed.clear()


def begin_test() -> None:
    """Check the first calls of every function again."""
    for checks in _CHECKS:
        checks.left = FIRST_CALLS


@dataclasses.dataclass
class _Checks:
    """The calls of a function left to check, and the shapes that passed."""

    left: int = FIRST_CALLS
    passed: set[object] = dataclasses.field(default_factory=set[object])


_CHECKS: list[_Checks] = []


def checked(subject: Any) -> Any:  # a function or class of any type
    """Return the function or class, with checks if it declares shapes."""
    if isinstance(subject, FunctionType):
        return _checked_function(subject)
    if isinstance(subject, type) and dataclasses.is_dataclass(subject):
        subject.__init__ = _checked_function(subject.__init__)
    return subject


def _checked_function(function: Any) -> Any:  # a function of any signature
    annotations = inspect.get_annotations(function)
    shaped = {name: kind for name, kind in annotations.items() if _has_shape(kind)}
    if not shaped:
        return function
    # Other annotations cost time, and pyright has checked them.
    function.__annotations__ = shaped
    checks = _Checks()
    _CHECKS.append(checks)

    @functools.cache  # made when first needed, since few tests call every function
    def strict() -> Callable[..., object]:
        return jaxtyping.jaxtyped(function, typechecker=beartype.beartype)

    @functools.wraps(function)
    def checking(*arguments: object, **named: object) -> object:
        if checks.left <= 0:
            return function(*arguments, **named)
        checks.left -= 1
        shapes = (*map(_shape, arguments), *named, *map(_shape, named.values()))
        if shapes in checks.passed:
            checks.left -= KNOWN - 1
            return function(*arguments, **named)
        result = strict()(*arguments, **named)
        checks.passed.add(shapes)
        return result

    return checking


def _has_shape(annotation: object) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return any(_has_shape(part) for part in get_args(annotation))


def _shape(argument: object) -> object:
    """Return a tensor's shape and dtype, an integer, or the type."""
    kind = type(argument)
    if kind.__name__ in ("Tensor", "Parameter"):
        return argument.shape, argument.dtype  # pyright: ignore[reportAttributeAccessIssue]
    return argument if kind is int or kind is bool else kind


class _Finder(MetaPathFinder):
    """A finder of the engine's modules, which `_Loader` loads."""

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(ENGINE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """A loader that decorates functions and classes with `checked`.

    So decorators such as `register` receive the checked function, and `dataclass` comes first.
    """

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        for node in (*tree.body, *(member for owner in classes for member in owner.body)):
            decorator = ast.copy_location(ast.Name(DECORATOR, ast.Load()), node)
            if isinstance(node, ast.FunctionDef):
                node.decorator_list.append(decorator)
            elif isinstance(node, ast.ClassDef):
                node.decorator_list.insert(0, decorator)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[DECORATOR] = checked
        super().exec_module(module)
