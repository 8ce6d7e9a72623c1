"""The description matches the server, and the committed file matches it."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

from adaptlab_api import openapi

ROOT = Path(__file__).parents[2]
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def text() -> str:
    """The document as the routes say it, which takes seconds."""
    return openapi.written()


@pytest.fixture(scope="module")
def document(text: str) -> dict[str, Any]:
    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: TID251 - as safe, and much faster


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_committed_file_is_up_to_date(text: str) -> None:
    assert (ROOT / openapi.FILE_NAME).read_text(encoding="utf-8") == text


def test_drift_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(openapi, "written", lambda: text)
    (tmp_path / "api").mkdir()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert openapi.main(["--check"]) == 1
    assert openapi.main([]) == 0
    assert openapi.main(["--check"]) == 0
    (tmp_path / openapi.FILE_NAME).write_text("openapi: 3.1.0\n")
    assert openapi.main(["--check"]) == 1


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()


def test_every_operation_has_a_name_and_a_summary(document: dict[str, Any]) -> None:
    found = operations(document)
    names = [operation["operationId"] for _, _, operation in found]
    assert len(names) == len(set(names)) > 25
    assert all(operation["summary"] and operation["tags"] for _, _, operation in found)


def test_every_failure_is_a_problem_document(document: dict[str, Any]) -> None:
    shared = document["components"]["responses"]
    assert all(list(response["content"]) == [PROBLEM] for response in shared.values())
    for path, method, operation in operations(document):
        failures = {s: r for s, r in operation["responses"].items() if s >= "400"}
        assert all(list(r) == ["$ref"] for r in failures.values()), (path, method)
        if path.startswith("/v1"):
            assert {"400", "401", "403", "422", "500", "503"} <= set(failures), (path, method)
            assert operation["security"]
        if "requestBody" in operation:
            assert {"413", "415"} <= set(failures)


def test_the_body_of_a_job_is_the_schema_of_the_spec(document: dict[str, Any]) -> None:
    create = document["paths"]["/v1/jobs"]["post"]
    body = create["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/JobSpec"}
    schemas = document["components"]["schemas"]
    kinds = set(schemas["JobSpec"]["discriminator"]["mapping"])
    assert kinds == {"pretrain", "import", "adapt", "theory"}
    assert "learning_rate" in schemas["TrainingSpec-Input"]["properties"]
