"""Descriptions of routes in the OpenAPI document."""

from typing import Any

from adaptlab_api.answers.problems import MEDIA_TYPE, OF_STATUS
from adaptlab_api.requests.parameters import PROJECT

# Any: an OpenAPI fragment, in FastAPI's own types.
Described = dict[int | str, dict[str, Any]]

EVERYWHERE = (400, 401, 403, 422, 429, 431, 500, 503)
"""A bad address, no token, no permission, bad parameters, too many requests or headers, a server
error, no database."""
WITH_BODY = (408, 413, 415)

BEARER = "HTTPBearer"
_TOKEN = "The token of a user, as `Bearer al_…`."
_PROJECT = (
    "The name of one of your projects: the request sees only this project and creates resources in "
    "it. Without it, the request sees all your projects and creates resources in your only project "
    "or in `default`."
)


def failures(*statuses: int) -> Described:
    """Return the problem documents of a route, including those of every route."""
    return only_failures(*EVERYWHERE, *statuses)


def only_failures(*statuses: int) -> Described:
    """Return the problem documents of a route that answers no others."""
    return {status: _problem(status) for status in sorted(set(statuses))}


def succeeds(status: int, description: str, *media_types: str, **headers: str) -> Described:
    """Return the description of an answer that FastAPI cannot infer."""
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


def created(what: str, *, tagged: bool = False) -> Described:
    """Return the description of a 201 answer with an address.

    With `tagged`, the answer has an entity tag.
    """
    headers = {"Location": f"The address of the {what}."}
    if tagged:
        headers["ETag"] = "Entity tag of this representation."
    described = succeeds(201, f"The new {what}.", **headers)
    del described[201]["content"]  # FastAPI describes it
    return described


def body_of(*schemas: str) -> dict[str, Any]:
    """Return the description of a JSON body with exactly one of the schemas."""
    references = [{"$ref": f"#/components/schemas/{schema}"} for schema in schemas]
    schema = references[0] if len(references) == 1 else {"oneOf": references}
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def bytes_body(media_type: str) -> dict[str, Any]:
    """Return the description of a body of bytes."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"required": True, "content": content}}


def shared_parts() -> dict[str, Any]:
    """Return what operations refer to: errors, and what the gate reads."""
    return {
        "responses": {kind.name: _problem(status) for status, kind in OF_STATUS.items()},
        "parameters": {PROJECT: _project()},
        "securitySchemes": {BEARER: {"type": "http", "description": _TOKEN, "scheme": "bearer"}},
    }


def with_shared_errors(operation: dict[str, Any]) -> dict[str, Any]:
    """Return an operation's description, with its errors by reference."""
    return operation | {"responses": _by_reference(operation["responses"])}


def behind_the_gate(operation: dict[str, Any]) -> dict[str, Any]:
    """Return an operation's description, with what the gate reads."""
    parameters = operation.pop("parameters", [])
    rest = {name: operation.pop(name) for name in ("responses", "requestBody") if name in operation}
    headers = [parameter for parameter in parameters if parameter["in"] == "header"]
    others = [parameter for parameter in parameters if parameter["in"] != "header"]
    return {
        **operation,
        "security": [{BEARER: []}],
        "parameters": [*others, {"$ref": f"#/components/parameters/{PROJECT}"}, *headers],
        **rest,
    }


def _project() -> dict[str, Any]:
    schema = {
        "anyOf": [{"type": "string", "maxLength": 63}, {"type": "null"}],
        "description": _PROJECT,
        "title": "Project",
    }
    return {
        "name": PROJECT,
        "in": "query",
        "required": False,
        "schema": schema,
        "description": _PROJECT,
    }


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemDocument"}
    return {"description": OF_STATUS[status].title, "content": {MEDIA_TYPE: {"schema": schema}}}


def _by_reference(responses: dict[str, Any]) -> dict[str, Any]:
    return {
        status: {"$ref": f"#/components/responses/{OF_STATUS[int(status)].name}"}
        if int(status) in OF_STATUS and response == _problem(int(status))
        else response
        for status, response in responses.items()
    }
