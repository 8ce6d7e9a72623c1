"""Adapters over HTTP as folders for PEFT.

tests/engine compares what PEFT computes.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from fastapi.testclient import TestClient
from safetensors.numpy import load
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.adapters import Arrays, an_adapter
from tests.making import a_base_model
from tests.texts import reviews, stored

from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Artifact, CheckpointRow

Sessions = sessionmaker[Session]


def folder(api: TestClient, checkpoint: int, *further: str) -> tuple[dict[str, Any], Arrays]:
    answer = api.get(f"/v1/checkpoints/{checkpoint}/peft")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        names = ["adapter_config.json", "adapter_model.safetensors"]
        assert archive.namelist() == [*names, *further]
        config, weights, *_ = map(archive.read, archive.namelist())
    return json.loads(config), load(weights)


def refusal(api: TestClient, checkpoint: int) -> tuple[str, str]:
    answer = api.get(f"/v1/checkpoints/{checkpoint}/peft")
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/path/checkpoint_id"
    return error["code"], error["detail"]


def test_lora_at_queries_and_values_of_a_fused_matrix(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        checkpoint, _, given, _ = an_adapter(session, {"name": "lora", "rank": 2, "alpha": 3})
    config, tensors = folder(api, checkpoint)
    assert (config["peft_type"], config["target_modules"]) == ("LORA", ["c_attn"])
    assert (config["r"], config["lora_alpha"], config["fan_in_fan_out"]) == (4, 6, True)
    module = "base_model.model.transformer.h.0.attn.c_attn"
    update = tensors[f"{module}.lora_B.weight"] @ tensors[f"{module}.lora_A.weight"]
    for part, rows in (("q", slice(0, 8)), ("v", slice(16, 24))):
        own = given[f"blocks.0.attn.{part}.b"] @ given[f"blocks.0.attn.{part}.a"]
        assert np.allclose(update[rows], own)
    assert not update[8:16].any()


def test_the_base_of_the_seed_gives_what_the_adapter_lacks(
    api: TestClient, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        method = {"name": "lora", "rank": 2, "dora": True}
        checkpoint, _, _, base = an_adapter(session, method)
    _, tensors = folder(api, checkpoint)
    norms = tensors["base_model.model.transformer.h.0.attn.c_attn.lora_magnitude_vector"]
    keys = base["blocks.0.attn.k.weight"]
    assert np.allclose(norms[8:16], np.sqrt((keys**2).sum(1)))


def test_a_soft_prompt_moves_position_vectors(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        checkpoint, _, given, base = an_adapter(session, {"name": "soft_prompt", "length": 2})
    config, tensors = folder(api, checkpoint)
    assert (config["num_virtual_tokens"], config["modules_to_save"]) == (2, ["wpe"])
    assert np.array_equal(tensors["prompt_embeddings"], given["embed.prompt"])
    table, own = tensors["base_model.transformer.wpe.weight"], base["positions.weight"]
    assert not table[:2].any()
    assert np.array_equal(table[2:], own[:-2])


def test_a_trained_head_is_saved_with_its_bias(
    api: TestClient, sessions: Sessions, tmp_path: Path
) -> None:
    data = stored(tmp_path, reviews(60))
    with sessions.begin() as session:
        checkpoint, _, given, _ = an_adapter(
            session, {"name": "soft_prompt", "length": 2}, data, context=64
        )
    config, tensors = folder(api, checkpoint, "README.md")
    assert (config["task_type"], config["modules_to_save"]) == ("SEQ_CLS", ["wpe", "score"])
    for part in ("weight", "bias"):
        assert np.array_equal(tensors[f"base_model.score.{part}"], given[f"unembed.{part}"])
    answer = api.get(f"/v1/checkpoints/{checkpoint}/peft")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        told = archive.read("README.md").decode()
    assert "base.score = torch.nn.Linear(base.score.in_features, 2)" in told
    assert 'in the order of the outputs: "neg", "pos".' in told


def test_a_method_without_a_peft_form(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        checkpoint, *_ = an_adapter(session, {"name": "bitfit"})
    assert refusal(api, checkpoint) == (
        "no_peft_form",
        "bitfit has no PEFT form. The nearest method that has one is ia3.",
    )


def test_a_family_that_peft_cannot_adapt(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        checkpoint, *_ = an_adapter(session, {"name": "lora", "rank": 1}, name="minigpt")
    code, detail = refusal(api, checkpoint)
    assert code == "no_peft_form"
    assert "a minigpt is none" in detail
    assert "gpt2, llama, transformers" in detail


def test_a_base_model_is_no_adapter(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        job = a_base_model(session)
        (checkpoint, *_) = session.scalars(
            select(CheckpointRow.id).where(CheckpointRow.job_id == job)
        )
    code, detail = refusal(api, checkpoint)
    assert code == "no_peft_form"
    assert "is a base model, not an adapter" in detail


def test_a_checkpoint_of_other_tensors_is_refused(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        checkpoint, *_ = an_adapter(session, {"name": "lora", "rank": 2})
        row = session.get_one(CheckpointRow, checkpoint)
        row.artifact_sha256 = ArtifactStore(session).write([b"no tensors"]).sha256
    assert refusal(api, checkpoint)[0] == "bad_checkpoint"


def test_bytes_that_were_collected(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        checkpoint, *_ = an_adapter(session, {"name": "lora", "rank": 2})
        row = session.get_one(CheckpointRow, checkpoint)
        artifact = session.get_one(Artifact, row.artifact_sha256)
        artifact.state, artifact.reason = "collected", "old"
    assert api.get(f"/v1/checkpoints/{checkpoint}/peft").status_code == 410


def test_a_checkpoint_that_does_not_exist(api: TestClient) -> None:
    assert api.get("/v1/checkpoints/987654321/peft").status_code == 404
