"""Base class of plug-ins, whose fields are described by docstrings."""

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from adaptlab.values import Value


class DescribedFields(Value):
    """A value whose JSON schema describes a field by the docstring below it.

    Sources are read when a schema is requested. pydantic's `use_attribute_docstrings` reads them
    when a class is created, which took 0.25 s of every process.
    """

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        written = handler(schema)
        for name, field in handler.resolve_ref_schema(written).get("properties", {}).items():
            declaring = (base for base in cls.__mro__ if name in inspect.get_annotations(base))
            if text := _docstrings(next(declaring, cls)).get(name):
                field.setdefault("description", text)
        return written


@cache
def _docstrings(cls: type) -> Mapping[str, str]:
    """Return the docstrings of a class's fields; none without its source."""
    try:
        tree = ast.parse(dedent(inspect.getsource(cls)))
    except (OSError, TypeError):
        return {}
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text)
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(text := below.value.value, str)
    }
