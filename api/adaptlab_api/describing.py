"""What the routes say about themselves in the OpenAPI document."""

from typing import Any

from adaptlab_api.problems import MEDIA_TYPE, OF_STATUS

# Any: an OpenAPI fragment, in FastAPI's own types.
Described = dict[int | str, dict[str, Any]]

EVERYWHERE = (400, 401, 403, 422, 429, 431, 500, 503)
"""A bad address, no token, a wrong token, bad parameters, too many requests or headers, a fault,
no database."""
WITH_BODY = (408, 413, 415)


def failures(*statuses: int) -> Described:
    """The problem documents that a route answers, beside those that every route does."""
    return only_failures(*EVERYWHERE, *statuses)


def only_failures(*statuses: int) -> Described:
    """The problem documents of a route that answers no others."""
    return {status: _problem(status) for status in sorted(set(statuses))}


def succeeds(status: int, description: str, *media_types: str, **headers: str) -> Described:
    """A good answer that FastAPI cannot see: its media types and its headers."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        status: {
            "description": description,
            "content": dict.fromkeys(media_types, binary),
            "headers": {
                name.replace("_", "-"): {"description": text, "schema": {"type": "string"}}
                for name, text in headers.items()
            },
        }
    }


def json_body(*schemas: str) -> dict[str, Any]:
    """The body of a route that parses its JSON itself, strictly; it is exactly one of several."""
    references = [{"$ref": f"#/components/schemas/{schema}"} for schema in schemas]
    schema = references[0] if len(references) == 1 else {"oneOf": references}
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def bytes_body(media_type: str) -> dict[str, Any]:
    """The body of a route that takes bytes as they come."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"required": True, "content": content}}


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {"description": OF_STATUS[status].title, "content": {MEDIA_TYPE: {"schema": schema}}}
