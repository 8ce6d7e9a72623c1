"""Schemas that accept what a newer version has added to a value.

A value is strict where it is created. A value that is read from a program of a newer version keeps
unknown members, words and kinds, and writes them again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic_core import CoreSchema

# Any: core schemas are dictionaries of many shapes in pydantic's own types.
Node = dict[str, Any]

LIMITS = frozenset(("ge", "gt", "le", "lt", "multiple_of", "max_length", "min_length", "pattern"))
_NO_SCHEMAS = ("cls", "config", "default", "expected", "function", "metadata", "serialization")
_WORDS: Mapping[type, str] = {str: "str", int: "int", float: "float", bool: "bool"}


def opened_for_writing(schema: CoreSchema) -> CoreSchema:
    """Return the schema by which a class also writes unknown members."""
    return _rebuilt(dict(schema), _writes)


def opened_for_reading(schema: CoreSchema) -> CoreSchema:
    """Return the schema by which a class accepts unknown words and kinds.

    It has no limits, because they change between versions and only the server enforces them. A
    value of an unknown kind stays as it is in the JSON.
    """
    return _rebuilt(dict(schema), _reads)


def _rebuilt(node: Any, change: Callable[[Node], Node]) -> Any:  # a schema or a part of one
    """Return the node with its changed parts, or the node itself.

    Classes keep their schemas, and copies of all parts took 4 MB of a server.
    """
    if isinstance(node, list | tuple):  # a tuple is a choice of a union with its label
        parts = cast("Sequence[Any]", node)
        rebuilt = [_rebuilt(part, change) for part in parts]
        if all(new is old for new, old in zip(rebuilt, parts, strict=True)):
            return parts
        return rebuilt if isinstance(parts, list) else tuple(rebuilt)
    if not isinstance(node, dict):
        return node
    members = cast("Node", node)
    is_schema = isinstance(members.get("type"), str)  # others are by name, as a model's fields
    changed = {
        name: new
        for name, part in members.items()
        if not (is_schema and name in _NO_SCHEMAS) and (new := _rebuilt(part, change)) is not part
    }
    rebuilt_members = members | changed if changed else members
    return change(rebuilt_members) if is_schema else rebuilt_members


def _writes(node: Node) -> Node:
    if "serialization" in node:
        return node
    match node["type"]:
        case "literal":
            return _word(node)
        case "tagged-union":
            return {"type": "any"}
        case "model-fields":
            return node | {"extra_behavior": "allow"}
        case "model":
            return node | {"config": {**node.get("config", {}), "extra_fields_behavior": "allow"}}
        case _:
            return node


def _reads(node: Node) -> Node:
    match node["type"]:
        case "literal":
            return _word(node)
        case "tagged-union":
            return {"type": "union", "mode": "left_to_right", "choices": [node, {"type": "any"}]}
        case "model":
            return _without_own_validator(node)
        case _ if LIMITS.isdisjoint(node):
            return node
        case _:
            return {name: part for name, part in node.items() if name not in LIMITS}


def _word(node: Node) -> Node:
    """Return the schema of any value that has the type of the listed ones."""
    words: list[object] = node["expected"]
    kinds = {type(word) for word in words}
    kind = _WORDS.get(kinds.pop()) if len(kinds) == 1 else None
    return {"type": kind or "any"}


def _without_own_validator(node: Node) -> Node:
    """Return the schema of a model without the class's own validator."""
    cls = node["cls"]

    def construct(parts: tuple[dict[str, Any], dict[str, Any] | None, set[str]]) -> object:
        members, kept, names = parts
        value = cls.model_construct(names, **members)
        object.__setattr__(value, "__pydantic_extra__", kept)
        return value

    function = {"type": "no-info", "function": construct}
    schema: Node = {"type": "function-after", "function": function, "schema": node["schema"]}
    return schema | ({"ref": node["ref"]} if "ref" in node else {})
