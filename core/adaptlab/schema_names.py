"""Member names that a JSON schema allows at a place of a document."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

Node = Mapping[str, object]


def names_at(schema: Node, location: Sequence[int | str]) -> tuple[str, ...]:
    """Return the sorted names of the members that are allowed at a place.

    The result is empty if the schema allows any name.

    `location` is in pydantic's form: it also contains the names of union members, which select
    one of the choices.
    """
    nodes = tuple(_plain(schema, schema))
    for part in location:
        below = tuple(child for node in nodes for child in _below(schema, node, part))
        # A part without anything below it selects one of the members of a union.
        nodes = below or tuple(node for node in nodes if _is_called(node, part)) or nodes
    return tuple(sorted({name for node in nodes for name in _mapping(node, "properties")}))


def _plain(root: Node, node: Node) -> Iterator[Node]:
    """Yield the node, or the nodes that it refers to or chooses between."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        definitions = _mapping(root, "$defs")
        yield from _plain(root, cast("Node", definitions[reference.rpartition("/")[2]]))
        return
    choices = [*_list(node, "anyOf"), *_list(node, "oneOf"), *_list(node, "allOf")]
    if not choices:
        yield node
    for choice in choices:
        yield from _plain(root, choice)


def _below(root: Node, node: Node, part: int | str) -> Iterator[Node]:
    if isinstance(part, int):
        children = [*_list(node, "prefixItems"), _mapping(node, "items")]
    else:
        children = [_mapping(_mapping(node, "properties"), part)]
    for child in children:
        if child:
            yield from _plain(root, child)


def _is_called(node: Node, name: int | str) -> bool:
    """Return True if `name` is a union member's title or discriminator."""
    properties = _mapping(node, "properties").values()
    words = [cast("Node", schema).get("const") for schema in properties if isinstance(schema, dict)]
    return name in (node.get("title"), *words)


def _mapping(node: Node, name: str) -> Mapping[str, object]:
    value = node.get(name)
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _list(node: Node, name: str) -> Sequence[Node]:
    value = node.get(name)
    return cast("Sequence[Node]", value) if isinstance(value, list) else ()
