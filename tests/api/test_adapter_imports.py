"""Imported adapters over HTTP: their jobs, and what is refused where."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.adapters import BASE, an_adapter
from tests.api.rooted import with_a_root
from tests.api.sending import sent
from tests.folders import a_model_folder
from tests.peft_folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS, LORA, a_peft_folder, lora_tensors

from adaptlab.specs.resolved import readable, spec_digest
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_services.settings import Settings

FILES = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
IMPORT = {"kind": "import", "name": "llama", "folder": "models/llama"}
ADAPTER: dict[str, Any] = {
    "kind": "adapt",
    "base_model": IMPORT,
    "task": {"name": "sort_descending", "length": 3, "alphabet": 4},
    "adapter": "models/lora",
    "evaluation": {"samples": 16},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    a_model_folder(tmp_path / "root" / "llama")
    a_peft_folder(tmp_path / "root" / "lora")
    return tmp_path / "root"


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path, root: Path) -> Settings:
    return with_a_root(database_url, broker_url, tmp_path, root)


def refusal(api: TestClient, root: Path, **changes: object) -> dict[str, Any]:
    """The only problem of a spec.

    It is the same before and at its creation.
    """
    document = {name: value for name, value in {**ADAPTER, **changes}.items() if value is not None}
    answers = [api.post(f"/v1/jobs{query}", json=document) for query in ("?validate_only=true", "")]
    for answer in answers:
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert str(root) not in answer.text
    (problem,) = answers[0].json()["errors"]
    assert answers[1].json()["errors"] == [problem]
    return problem


@pytest.fixture
def created(api: TestClient) -> dict[str, Any]:
    """The job of an imported adapter."""
    answer = api.post("/v1/jobs", json=ADAPTER)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_an_adapter_becomes_an_adaptation_without_training(
    created: dict[str, Any], root: Path
) -> None:
    spec = created["resolved_spec"]
    assert spec["method"] == {
        "name": "lora", "rank": 2, "alpha": 4, "sites": ["q", "v"], "scaling": "standard",
        "dora": False,
    }  # fmt: skip
    assert (spec["seeds"], spec["base_replicates"], spec["training"]["steps"]) == ([0], [0], 0)
    assert {f["name"] for f in spec["adapter"]["files"]} == {ADAPTER_CONFIG, ADAPTER_WEIGHTS}
    stored = sum(tensor.size for tensor in lora_tensors().values())
    assert created["budget"]["trainable_parameters"] == stored
    assert str(root) not in json.dumps(created)


def test_a_preview_resolves_to_the_job_that_is_created(api: TestClient) -> None:
    preview = api.post("/v1/jobs?validate_only=true", json=ADAPTER)
    assert preview.status_code == 200, preview.text
    created = api.post("/v1/jobs", json=ADAPTER)
    assert preview.json()["spec_digest"] == created.json()["spec_digest"]


def test_its_pages_show_the_folder(api: TestClient, created: dict[str, Any]) -> None:
    page = api.get(f"/jobs/{created['id']}").text
    assert "imported from the folder models/lora" in page
    form = api.get(f"/jobs/new?from={created['id']}").text
    assert 'value="models/lora"' in form
    assert "/method/name" not in form


def test_the_fingerprint_is_part_of_the_digest(api: TestClient, root: Path) -> None:
    first = api.post("/v1/jobs?validate_only=true", json=ADAPTER).json()
    tensors = {name: 2 * tensor for name, tensor in lora_tensors().items()}
    a_peft_folder(root / "other", LORA, tensors)
    other = api.post("/v1/jobs?validate_only=true", json={**ADAPTER, "adapter": "models/other"})
    assert other.json()["spec_digest"] != first["spec_digest"]
    document = ResolvedSpec.model_validate(first["resolved_spec"])
    assert readable(document).adapter == document.adapter
    without = document.model_copy(update={"adapter": None})
    assert spec_digest(without) != spec_digest(document)


REFUSED: list[Any] = [
    ({"method": "lora"}, "/method", "given_with_adapter"),
    ({"budget": 96}, "/budget", "given_with_adapter"),
    ({"training": {"steps": 10}}, "/training", "given_with_adapter"),
    ({"tuning": {"trials": 2}}, "/tuning", "given_with_adapter"),
    ({"seeds": 2}, "/seeds", "not_one_seed"),
    ({"base_replicates": [1]}, "/base_replicates/0", "no_such_replicate"),
    ({"adapter": None}, "/method", "missing"),
    ({"adapter": "models/none"}, "/adapter", "no_such_folder"),
    ({"adapter": "models/../root/lora"}, "/adapter", "not_a_folder_name"),
    ({"adapter": "theirs/lora"}, "/adapter", "unknown_model_root"),
    ({"adapter": "models/out"}, "/adapter", "leads_out_of_root"),
    ({"adapter": "models/llama"}, "/adapter", "bad_adapter"),
    ({"adapter": ""}, "/adapter", "string_too_short"),
]


def test_refusals_name_their_place(api: TestClient, root: Path) -> None:
    (root / "out").symlink_to("/etc")
    for changes, pointer, code in REFUSED:
        problem = refusal(api, root, **changes)
        assert (problem["pointer"], problem["code"]) == (pointer, code)


def test_an_adapter_of_another_base_model_is_refused(api: TestClient, root: Path) -> None:
    config = {**LORA, "base_model_name_or_path": "models/small/other/"}
    (root / "lora" / ADAPTER_CONFIG).write_text(json.dumps(config))
    problem = refusal(api, root)
    assert (problem["pointer"], problem["code"]) == ("/adapter", "bad_adapter")
    assert (
        "was trained on models/small/other, and the base model 'llama' is models/llama"
        in (problem["detail"])
    )
    named = {**config, "base_model_name_or_path": "models/llama/"}
    (root / "lora" / ADAPTER_CONFIG).write_text(json.dumps(named))
    assert api.post("/v1/jobs", json=ADAPTER).status_code == 201


def test_a_base_model_that_peft_cannot_adapt_is_refused(api: TestClient, root: Path) -> None:
    pretraining = {
        "kind": "pretrain", "name": "mini", "task": ADAPTER["task"],
        "family": {"name": "minigpt", "layers": 1, "heads": 1, "width": 8},
    }  # fmt: skip
    problem = refusal(api, root, base_model=pretraining)
    assert (problem["pointer"], problem["code"]) == ("/base_model", "no_peft_form")


@pytest.mark.parametrize(
    "method",
    [
        {"name": "lora", "rank": 2, "dora": True},
        {"name": "soft_prompt", "length": 2},
        {"name": "prefix_tuning", "length": 3, "side": "key_value"},
    ],
)
def test_an_export_is_imported_as_what_it_was(
    api: TestClient, sessions: sessionmaker[Session], root: Path, method: dict[str, object]
) -> None:
    """Tensors of the base in a form are compared with the replicate's own."""
    with sessions.begin() as session:
        checkpoint, trained, _, _ = an_adapter(session, method)
    content = api.get(f"/v1/checkpoints/{checkpoint}/peft").content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(root / "exported")
    document = {**ADAPTER, "base_model": BASE, "adapter": "models/exported"}
    answer = api.post("/v1/jobs", json={**document, "seeds": [1], "base_replicates": [1]})
    assert answer.status_code == 201, answer.text
    spec = readable(ResolvedSpec.model_validate(answer.json()["resolved_spec"]))
    assert spec.method == trained.method
    assert (spec.seeds, spec.base_replicates) == ((1,), (1,))
    if method["name"] == "soft_prompt":
        problem = refusal(api, root, **document)
        assert "other position vectors of transformer.wpe" in problem["detail"]


UPLOADED = {**ADAPTER, "adapter": "uploaded/lora"}


def uploaded(api: TestClient, folder: Path, name: str = "lora") -> dict[str, Any]:
    """Create a folder of an adapter from uploads."""
    files = [
        {"name": path.name, "upload": sent(api, path.read_bytes())} for path in folder.iterdir()
    ]
    answer = api.post("/v1/model-folders", json={"name": name, "files": files})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_an_uploaded_adapter_is_read_like_one_below_a_root(api: TestClient, root: Path) -> None:
    made = uploaded(api, root / "lora")
    assert (made["kind"], made["architecture"], made["dtype"]) == ("adapter", "LORA", "F32")
    assert (made["family"], made["base_models"]) == (None, [])
    assert made["parameters"] == sum(tensor.size for tensor in lora_tensors().values())
    specs = [api.post("/v1/jobs?validate_only=true", json=s).json() for s in (ADAPTER, UPLOADED)]
    below, stored = (spec["resolved_spec"].pop("adapter") for spec in specs)
    assert specs[0]["resolved_spec"] == specs[1]["resolved_spec"]
    assert below["files"] == stored["files"]
    assert {f["name"]: f["sha256"] for f in stored["stored"]} == {
        f["name"]: f["sha256"] for f in made["files"]
    }


def test_an_uploaded_adapter_stays_while_a_job_needs_it(api: TestClient, root: Path) -> None:
    uploaded(api, root / "lora")
    job = api.post("/v1/jobs", json=UPLOADED).json()
    refusal = api.delete("/v1/model-folders/lora")
    assert refusal.status_code == 409
    assert f"needed by the unfinished job {job['id']}" in refusal.json()["detail"]
    assert api.post(f"/v1/jobs/{job['id']}/cancel").status_code == 200
    assert api.delete("/v1/model-folders/lora").status_code == 204
    retried = api.post(f"/v1/jobs/{job['id']}/retry")
    assert retried.status_code == 422
    assert retried.json()["errors"][0]["pointer"] == "/adapter"


def test_models_and_adapters_are_not_taken_for_one_another(api: TestClient, root: Path) -> None:
    uploaded(api, root / "lora")
    answer = api.post("/v1/jobs", json={**IMPORT, "folder": "uploaded/lora"})
    (problem,) = answer.json()["errors"]
    assert (answer.status_code, problem["pointer"]) == (422, "/folder")
    assert "uploaded/lora is an adapter. Existing ones: (none)." in problem["detail"]
    uploaded(api, root / "llama", "llama")
    problem = refusal(api, root, adapter="uploaded/llama")
    assert "uploaded/llama is a model. Existing ones: lora." in problem["detail"]
    assert problem["allowed"] == ["uploaded/lora"]


@pytest.mark.parametrize(
    ("name", "content", "pointer", "message"),
    [
        ("adapter_model.bin", b"", "/files/2/name", "Load the adapter in PEFT and save it as"),
        ("README.md", b"", "/files/2/name", "the folder of an adapter has adapter_config.json, ad"),
        (ADAPTER_CONFIG, b'{"peft_type": "LOKR"}', "/files", 'has the peft_type "LOKR"'),
        (ADAPTER_WEIGHTS, b"cut", "/files", "not a whole safetensors file"),
        (ADAPTER_WEIGHTS, None, "/files", "The folder has no adapter_model.safetensors"),
    ],
)
def test_uploads_that_are_no_adapter_are_refused_by_name(
    api: TestClient, root: Path, name: str, content: bytes | None, pointer: str, message: str
) -> None:
    contents = {file: (root / "lora" / file).read_bytes() for file in FILES}
    chosen = {file: text for file, text in {**contents, name: content}.items() if text is not None}
    files = [{"name": file, "upload": sent(api, text or b"x")} for file, text in chosen.items()]
    answer = api.post("/v1/model-folders", json={"name": "lora", "files": files})
    (problem,) = answer.json()["errors"]
    assert (answer.status_code, problem["pointer"]) == (422, pointer)
    assert message in problem["detail"]
