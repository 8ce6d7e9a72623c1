"""The OpenAPI document, generated from the routes and checked in CI.

`python -m adaptlab_api.openapi` writes `openapi.yaml`; with `--check` it changes nothing and
exits with 1 if the file differs from the routes.
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from adaptlab_api.answers.problems import ProblemBody
from adaptlab_api.requests.describing import behind_the_gate, shared_parts, with_shared_errors
from adaptlab_api.requests.routing import API_PREFIX, ApiRoute
from adaptlab_services.settings import Settings

FILE_NAME = "openapi.yaml"
HEADER = "# Made by `python -m adaptlab_api.openapi`; do not edit.\n"
DESCRIPTION = (
    "Create and follow jobs, which train and evaluate adaptation methods, and fetch their results. "
    "Every request needs the header `Authorization: Bearer TOKEN`. Every error is a problem "
    "document (RFC 9457). Bodies are strict JSON: no NaN, no duplicate keys, no text for a number. "
    "Lists use keyset pagination: repeat the request with `page_token` set to `next_page_token` "
    "until that is null. New members and values can be added at any time, so ignore unknown ones."
)

# Any: an OpenAPI document, in FastAPI's own types.
Document = dict[str, Any]


def describe(app: FastAPI) -> Document:
    """Return the OpenAPI 3.1 document of an application."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=DESCRIPTION,
        routes=app.routes,
    )
    schemas: Document = document["components"]["schemas"]
    for leftover in ("HTTPValidationError", "ValidationError"):
        schemas.pop(leftover, None)
    for route in app.routes:
        if isinstance(route, ApiRoute):
            for name, adapter in route.bodies.items():
                schemas |= _body_schemas(name, adapter)
    schemas |= _body_schemas("ProblemDocument", TypeAdapter(ProblemBody), suffix="")
    document["components"] = {"schemas": dict(sorted(schemas.items())), **shared_parts()}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            gated = behind_the_gate(operation) if path.startswith(API_PREFIX) else operation
            operations[method] = with_shared_errors(gated)
    return document


def undeployed() -> FastAPI:
    """Return the application with all its routes and no database."""
    from adaptlab_api.app import create_app  # the application imports this module

    return create_app(Settings(database_url="postgresql://nowhere/none", broker_url="redis://none"))


def written() -> str:
    """Return the text of `openapi.yaml`, which depends on the code alone."""
    # libyaml, if PyYAML was built with it, writes the same text in a third of the time.
    dumper: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(
        undeployed().openapi(), Dumper=dumper, sort_keys=False, allow_unicode=True, width=100
    )
    return HEADER + text


def main(arguments: list[str]) -> int:
    """Write or compare the file; return the exit code."""
    path = _repository() / FILE_NAME
    text = written()
    if "--check" not in arguments:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{FILE_NAME} is not what the routes say; run `make generate`.\n")
    return 1


def _body_schemas(name: str, adapter: TypeAdapter[Any], suffix: str = "-Input") -> Document:
    """Return the schemas of a body and its parts, apart from those of answers."""
    schema = adapter.json_schema(ref_template=f"#/components/schemas/{{model}}{suffix}")
    inner: Document = schema.pop("$defs", {})
    return {f"{part}{suffix}": content for part, content in inner.items()} | {name: schema}


def _repository() -> Path:
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / "pyproject.toml").exists() and (folder / "api").is_dir():
            return folder
    raise SystemExit("openapi.yaml belongs to the repository; run this inside a checkout.")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
