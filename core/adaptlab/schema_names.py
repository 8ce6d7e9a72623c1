"""Which names a place of a document may have, read from the JSON schema of the document."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

Node = Mapping[str, object]


def names_at(schema: Node, location: Sequence[int | str]) -> tuple[str, ...]:
    """The names of the members at a place, sorted; none where the schema leaves them open.

    A location is pydantic's: it holds the names of union members too, which choose among them.
    """
    nodes = tuple(_plain(schema, schema))
    for part in location:
        below = tuple(child for node in nodes for child in _below(schema, node, part))
        # Where nothing lies below, the part chooses among the members of a union.
        nodes = below or tuple(node for node in nodes if _is_called(node, part)) or nodes
    return tuple(sorted({name for node in nodes for name in _mapping(node, "properties")}))


def _plain(root: Node, node: Node) -> Iterator[Node]:
    """The node, or those that it refers to or chooses between."""
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
    """Whether a member of a union goes by this name: its title, or the word that chooses it."""
    properties = _mapping(node, "properties").values()
    words = [cast("Node", one).get("const") for one in properties if isinstance(one, dict)]
    return name in (node.get("title"), *words)


def _mapping(node: Node, name: str) -> Mapping[str, object]:
    found = node.get(name)
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else {}


def _list(node: Node, name: str) -> Sequence[Node]:
    found = node.get(name)
    return cast("Sequence[Node]", found) if isinstance(found, list) else ()
