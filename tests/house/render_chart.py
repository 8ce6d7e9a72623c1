"""Lint, render and validate the chart; run by the Python of `make helm`.

Takes a JSON list of sets of values on stdin. Helm's own library renders, and the schemas of
Kubernetes validate.
"""

import json
import sys
from typing import Any

import helm_python  # pyright: ignore[reportMissingImports] - of `make helm`, not of `.venv`
import kubernetes_validate  # pyright: ignore[reportMissingImports] - likewise
import yaml

VERSIONS = ("1.25", "1.34")


def rendered(folder: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return objects, complaints of the linter, and violations of the schemas."""
    found = helm_python.lint(folder, values=values)
    with helm_python.Chart.load(folder) as chart:
        chart.validate_schema(values)
        files = chart.render(values, name="lab", namespace="team")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    objects = [one for text in texts for one in yaml.safe_load_all(text) if one]
    return {
        "objects": objects,
        "lint": [one["error"] for one in found["messages"] if one["severity"] > 1],
        "invalid": [fault for one in objects for fault in faults(one)],
    }


def faults(one: dict[str, Any]) -> list[str]:
    """Return what the schemas of two versions have against an object."""
    found: list[str] = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{version} {one['kind']} {one['metadata']['name']}: {error}")
    return found


def answered(folder: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return `rendered`, or the refusal."""
    try:
        return rendered(folder, values)
    except helm_python.HelmError as error:
        return {"refused": str(error)}


if __name__ == "__main__":
    print(json.dumps([answered(sys.argv[1], values) for values in json.load(sys.stdin)]))
