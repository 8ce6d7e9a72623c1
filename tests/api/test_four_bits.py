"""Four-bit base weights over HTTP: refused where no worker has a GPU."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api.rooted import with_a_root
from tests.folders import a_model_folder
from tests.making import a_study_document, a_worker, an_adapt_document

from adaptlab_answers.server import WorkerLoad
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.settings import Settings

IMPORT = {"kind": "import", "name": "llama", "folder": "models/llama"}
CARD = {"index": 0, "name": "H100", "memory_bytes": 80, "memory_used_bytes": 1, "busy": None}
TRAINING = {"steps": 5, "base_weights": "nf4"}


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    folder = a_model_folder(tmp_path / "root" / "llama")
    return with_a_root(database_url, broker_url, tmp_path, folder.parent)


def reported(ledger: DatabaseLedger, gpus: list[dict[str, Any]]) -> None:
    """Register a worker of the queue `cpu` with these GPUs."""
    memory = {
        "memory_used_bytes": 5,
        "machine_memory_bytes": 9,
        "machine_memory_available_bytes": 3,
    }
    load = WorkerLoad.model_validate({**memory, "gpus": gpus})
    ledger.report_load(a_worker(ledger), load)


def test_four_bits_are_refused_on_a_queue_without_any_gpu(
    api: TestClient, ledger: DatabaseLedger
) -> None:
    spec = an_adapt_document(
        base_model=IMPORT, method={"name": "lora", "rank": 1}, budget={}, training=TRAINING
    )
    preview = "/v1/jobs?validate_only=true"
    told = (
        "The base weights nf4 are not available on a CPU. The job needs a worker with an NVIDIA "
        "GPU on the queue 'cpu'."
    )
    assert told in api.post(preview, json=spec).json()["warnings"], "no worker serves the queue"
    reported(ledger, [])
    study = a_study_document(
        base_models=[IMPORT], methods=["lora"], budgets=[500], training=TRAINING
    )
    for path, document in ((preview, spec), ("/v1/jobs", spec), ("/v1/studies", study)):
        answer = api.post(path, json=document)
        assert answer.status_code == 422, answer.text
        (problem,) = answer.json()["errors"]
        assert (problem["pointer"], problem["code"]) == ("/training/base_weights", "no_gpu")
    reported(ledger, [CARD])
    answer = api.post(preview, json=spec).json()
    (warning,) = [text for text in answer["warnings"] if "nf4" in text]
    assert warning.startswith("A live worker of the queue 'cpu' has no NVIDIA GPU.")
    assert answer["resolved_spec"]["training"]["base_weights"] == "nf4"
