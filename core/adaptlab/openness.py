"""Schemas that let through what a newer program has added: members, words and kinds of values.

A value is strict where it is made. Where it is read from the answer of a program that may be newer,
it keeps what it does not know, and writes it again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pydantic_core import CoreSchema

# Any: core schemas are dictionaries of many shapes in pydantic's own types.
Node = dict[str, Any]

LIMITS = ("ge", "gt", "le", "lt", "multiple_of", "max_length", "min_length", "pattern")
_NO_SCHEMAS = ("cls", "config", "default", "expected", "function", "metadata", "serialization")
_WORDS: Mapping[type, str] = {str: "str", int: "int", float: "float", bool: "bool"}


def opened_for_writing(schema: CoreSchema) -> CoreSchema:
    """The schema of a class by which it writes what was kept besides what it declares."""
    return _rebuilt(dict(schema), _writes)


def opened_for_reading(schema: CoreSchema) -> CoreSchema:
    """The schema of a class by which it takes words and kinds that it does not know, of any size.

    Limits change from version to version and are the server's to keep; a value of a kind that is
    not known stays as it is in the JSON.
    """
    return _rebuilt(dict(schema), _reads)


def _rebuilt(node: Any, change: Callable[[Node], Node]) -> Any:  # a schema or a part of one
    if isinstance(node, list | tuple):  # a tuple is a choice of a union with its label
        parts = cast("Sequence[Any]", node)
        rebuilt = [_rebuilt(part, change) for part in parts]
        return rebuilt if isinstance(parts, list) else tuple(rebuilt)
    if not isinstance(node, dict):
        return node
    found = cast("Node", node)
    if not isinstance(found.get("type"), str):  # schemas by name, as the members of a model
        return {name: _rebuilt(part, change) for name, part in found.items()}
    return change(
        {
            name: part if name in _NO_SCHEMAS else _rebuilt(part, change)
            for name, part in found.items()
        }
    )


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
            return _as_made(node)
        case _:
            return {name: part for name, part in node.items() if name not in LIMITS}


def _word(node: Node) -> Node:
    """Any value of the kind of which the listed ones are."""
    words: list[object] = node["expected"]
    kinds = {type(word) for word in words}
    kind = _WORDS.get(kinds.pop()) if len(kinds) == 1 else None
    return {"type": kind or "any"}


def _as_made(node: Node) -> Node:
    """A model without its own validator: pydantic would use the one that the class has already."""
    cls = node["cls"]

    def made(parts: tuple[dict[str, Any], dict[str, Any] | None, set[str]]) -> object:
        members, kept, names = parts
        value = cls.model_construct(names, **members)
        object.__setattr__(value, "__pydantic_extra__", kept)
        return value

    function = {"type": "no-info", "function": made}
    found: Node = {"type": "function-after", "function": function, "schema": node["schema"]}
    return found | ({"ref": node["ref"]} if "ref" in node else {})
