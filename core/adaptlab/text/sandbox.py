"""Jinja's sandbox, with every turn of a loop and every call counted.

Only `adaptlab.text.chat` loads this, where a conversation is rendered.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import wraps
from types import MappingProxyType
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.ext import loopcontrols as loop_controls
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from adaptlab.text.call_bounds import FILTERS, METHODS, length

Filters = Mapping[str, Callable[..., Any]]
_COUNTED, _JOINED = "counted turns", "joined texts"
"""The names of filters, which no template can write."""

MOST_STEPS = 100_000
"""Limit of the turns of loops, the calls and the printed pieces in one rendering."""
READING = frozenset({"length", "count", "first", "last", "default", "d", "attr", "items"})
"""Filters that make nothing."""
LEFT_OUT = frozenset({"urlize", "xmlattr", "random"})
"""Filters of web pages, and one that gives another text each time."""
MOST_REPEATED = 1000
"""Limit of a factor of a text or a list, and of the numbers in a range."""


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of published templates, where no program is long.

    `longest` is the limit in characters of a text that is joined from others.
    """

    intercepted_binops = frozenset(["*", "**", "%", "+"])
    filters: dict[str, Any]
    globals: dict[str, Any]

    def __init__(self, longest: int, filters: Filters = MappingProxyType({})) -> None:
        extensions = [loop_controls, _Generation]
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=extensions,
            finalize=self._printed,
        )
        self._longest, self._left = longest, MOST_STEPS
        wanted: Filters = {**self.filters, **filters}
        bounded = {
            name: self._bounded(name, one) for name, one in wanted.items() if name not in LEFT_OUT
        }
        self.filters = bounded | {_COUNTED: self._counted, _JOINED: self._joined}
        self.globals = {"range": _range, "dict": dict, "namespace": Namespace}

    def start(self) -> None:
        """Begin a rendering."""
        self._left = MOST_STEPS

    def take(self, count: int = 1) -> None:
        """Take steps; raises `SecurityError` if there are not so many."""
        self._left -= count
        if self._left < 0:
            raise SecurityError(f"it takes more than {MOST_STEPS:,} steps")

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Return the parsed template, with counted loops and limited joining."""
        tree = _Joining().visit(super()._parse(source, name, filename))
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                raise TemplateSyntaxError("recursive loops are not supported", loop.lineno)
            loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None, lineno=loop.lineno)
        return tree

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        """Yield values, one step each."""
        for value in values:
            self.take()
            yield value

    def _joined(self, values: Sequence[Any]) -> str:
        """Return values as one text."""
        self._check(length(list(values)))
        texts = [str(value) for value in values]
        self._check(sum(map(len, texts)))
        return "".join(texts)

    def _printed(self, value: Any) -> Any:
        """Return a value that is printed; raise `SecurityError` if it is too long."""
        if not isinstance(value, str):
            self._check(length(value))
        return value

    def _bounded(self, name: str, called: Callable[..., Any]) -> Callable[..., Any]:
        """Return a filter that makes nothing longer than the limit."""
        bound, place = FILTERS.get(name), int(hasattr(called, "jinja_pass_arg"))

        @wraps(called)
        def checked(*arguments: Any, **names: Any) -> Any:
            if name not in READING:
                value, *others = arguments[place:]
                # First of all, because they are read as texts.
                self._check(length([value, *others, *names.values()]))
                self._check(0 if bound is None else bound(value, others, names))
            return self._checked(called(*arguments, **names))

        return checked

    def _checked(self, made: Any) -> Any:
        if isinstance(made, str | bytes):
            self._check(len(made))
        return made

    def _check(self, size: int) -> None:
        if size > self._longest:
            raise SecurityError(f"a text has more than {self._longest:,} characters")

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call something, which is one step and makes no text beyond the limit."""
        self.take()
        method = getattr(called, "__wrapped__", called)  # Jinja wraps `format`
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if isinstance(owner, str | bytes | int) and name in METHODS:
            self._check(length([owner, *args, *kwargs.values()]))
            self._check(METHODS[name](owner, args, kwargs))
        return self._checked(super().call(context, called, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute with numbers, and join or repeat texts up to the limits."""
        pair = (left, right)
        if operator == "+":
            self._check(sum(len(one) for one in pair if isinstance(one, Sized)))
            return super().call_binop(context, operator, left, right)
        if operator == "*" and not all(isinstance(one, int | float) for one in pair):
            if any(isinstance(one, int) and one > MOST_REPEATED for one in pair):
                raise SecurityError(f"a text is repeated more than {MOST_REPEATED:,} times")
            self._check(_product(left, right))
        elif not all(isinstance(one, int | float) and abs(one) <= MOST_REPEATED for one in pair):
            raise SecurityError(f"{operator} is for numbers up to {MOST_REPEATED:,}")
        return super().call_binop(context, operator, left, right)


def _product(left: Any, right: Any) -> int:
    """Return the length of a text or list that is repeated."""
    sizes = [len(one) if isinstance(one, Sized) else int(one) for one in (left, right)]
    return sizes[0] * max(0, sizes[1])


def _range(*bounds: int) -> range:
    """Return a range of few numbers."""
    numbers = range(*bounds)
    if len(numbers) > MOST_REPEATED:
        raise SecurityError(f"a range has more than {MOST_REPEATED:,} numbers")
    return numbers


class _Joining(NodeTransformer):
    """Replaces the operator `~`, which no environment can intercept."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - as Jinja names it
        """Return a filter in place of the operator."""
        self.generic_visit(node)
        texts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(texts, _JOINED, [], [], None, None, lineno=node.lineno)


class _Generation(Extension):
    """The block `generation`, which some templates put around answers."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the block's content."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)
