"""A model from a folder, by a real import, to a downloaded adapter."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file
from tests.engine.published import gpt2
from tests.folders import a_model_folder, a_qwen3_folder, with_weights
from tests.whole.conftest import PATIENCE, command
from transformers import GPT2LMHeadModel

from adaptlab_client import Client, InvalidRequest, JobView
from adaptlab_stack.stack import Stack

TASK = {"name": "sort_descending", "length": 3, "alphabet": 5}
ADAPTER = "models/adapters/lora"
MEASURED = {"evaluation": {"samples": 50}, "capture": {"attention": {"samples": 1}}}
ADAPT = {
    "kind": "adapt",
    "base_model": "tiny-llama",
    "task": TASK,
    "method": {"name": "lora", "rank": 2},
    "training": {"steps": 10, "batch_size": 8},
    **MEASURED,
}
MOVED = "base_model.transformer.wpe.modules_to_save.default.weight"


@pytest.fixture(scope="module")
def folder(model_root: Path) -> Path:
    return a_model_folder(model_root / "tiny" / "llama")


@pytest.fixture(scope="module")
def imported(client: Client, folder: Path) -> JobView:
    job = client.base_models.import_folder(
        "tiny-llama", "models/tiny/llama", evaluation={"tasks": [TASK], "samples": 50}
    )
    return client.jobs.wait(job.id, timeout=PATIENCE)


def test_an_imported_model_is_a_base_model_whose_weights_stay_in_their_folder(
    client: Client, imported: JobView, folder: Path
) -> None:
    assert imported.succeeded, imported.error
    assert client.base_models.get("tiny-llama").ready
    (scored,) = client.jobs.evaluations(imported.id)
    assert (scored.task_name, scored.total) == ("sort_descending", 50)
    assert client.jobs.checkpoints(imported.id) == ()
    assert client.base_models.get("tiny-llama").folder == "models/tiny/llama"
    assert str(folder) not in imported.model_dump_json()


@pytest.fixture(scope="module")
def adapted(client: Client, imported: JobView) -> JobView:
    assert imported.succeeded, imported.error
    job = client.jobs.wait(client.jobs.submit(ADAPT).id, timeout=PATIENCE)
    assert job.succeeded, job.error
    return job


def test_it_is_adapted_and_the_adapter_fetched(
    client: Client, adapted: JobView, tmp_path: Path
) -> None:
    assert {m.source for m in client.jobs.attention(adapted.id)} == {"base", "adapted"}
    (checkpoint,) = client.jobs.checkpoints(adapted.id)
    path = client.checkpoints.download(checkpoint, tmp_path / "lora.safetensors")
    assert adapted.budget is not None
    trained = adapted.budget.trainable_parameters
    assert sum(tensor.size for tensor in load_file(path).values()) == trained


@pytest.fixture(scope="module")
def measured_again(client: Client, adapted: JobView, model_root: Path) -> JobView:
    """The adapter of `adapted`, exported for PEFT, imported and scored."""
    (checkpoint,) = client.jobs.checkpoints(adapted.id)
    client.checkpoints.export(checkpoint, model_root / "adapters" / "lora")
    job = client.checkpoints.import_folder("tiny-llama", ADAPTER, TASK, **MEASURED)
    scored = client.jobs.wait(job.id, timeout=PATIENCE)
    assert scored.succeeded, scored.error
    return scored


def test_an_imported_adapter_is_the_exported_one_to_the_last_bit(
    client: Client, adapted: JobView, measured_again: JobView, tmp_path: Path
) -> None:
    tensors = [
        load_file(
            client.checkpoints.download(checkpoint, tmp_path / f"{checkpoint.id}.safetensors")
        )
        for job in (adapted, measured_again)
        for checkpoint in client.jobs.checkpoints(job.id)
    ]
    trained, returned = tensors
    assert trained.keys() == returned.keys()
    assert all(np.array_equal(trained[name], returned[name]) for name in trained)


def test_an_imported_adapter_is_scored_and_looked_into(
    client: Client, adapted: JobView, measured_again: JobView
) -> None:
    maps = client.jobs.attention(measured_again.id)
    assert {attention.source for attention in maps} == {"base", "adapted"}
    trained, returned = (
        {e.attached: (e.correct, e.total) for e in client.jobs.evaluations(job.id)}
        for job in (adapted, measured_again)
    )
    assert trained == returned


def test_the_effort_of_an_imported_adapter_is_unknown(
    client: Client, adapted: JobView, measured_again: JobView
) -> None:
    compared = client.comparisons.jobs([adapted.id, measured_again.id])
    (table,) = compared.tables
    labels = {method.label: method.steps for method in table.methods}
    assert labels == {"lora": 10, "lora (imported)": 0}
    warnings = {warning.kind for warning in compared.warnings}
    assert "unknown_effort" in warnings
    assert "not_comparable" not in warnings
    advice = client.recommendations.ask(TASK, base_model="tiny-llama", budget=1000)
    assert {job for row in advice.measured for job in row.jobs} == {adapted.id}


def test_an_imported_adapter_is_exported_again_and_its_theory_checked(
    client: Client, measured_again: JobView, tmp_path: Path
) -> None:
    (kept,) = client.jobs.checkpoints(measured_again.id)
    client.checkpoints.export(kept, tmp_path / "again")
    assert (tmp_path / "again" / "adapter_config.json").exists()
    measured = str(measured_again.id)
    checked = {"kind": "theory", "checks": ["relative_attention"], "adaptation": measured}
    theory = client.jobs.wait(client.jobs.submit(checked).id, timeout=PATIENCE)
    assert theory.succeeded, theory.error


def test_the_command_line_imports_an_adapter(stack: Stack, measured_again: JobView) -> None:
    done = command(
        stack, "checkpoints", "import", "tiny-llama", ADAPTER, "--task", json.dumps(TASK),
        "--wait", "-o", "id",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_model_that_the_library_computes_is_adapted_like_any_other(
    client: Client, model_root: Path
) -> None:
    a_qwen3_folder(model_root / "tiny" / "qwen3")
    job = client.base_models.import_folder("tiny-qwen3", "models/tiny/qwen3")
    imported = client.jobs.wait(job.id, timeout=PATIENCE)
    assert imported.succeeded, imported.error
    prefix = {"name": "prefix_tuning", "length": 2}
    spec = {**ADAPT, "base_model": "tiny-qwen3", "method": prefix}
    job = client.jobs.wait(client.jobs.submit(spec).id, timeout=PATIENCE)
    assert job.succeeded, job.error
    maps = {m.source: m for m in client.jobs.attention(job.id)}
    assert maps["adapted"].learned_positions == 2
    first = [s for s in maps["adapted"].summaries if s.layer == 0]
    assert all(summary.relative_deviation < 1e-12 for summary in first)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
def test_an_adapter_is_exported_with_what_it_needs_of_the_folder(
    client: Client, model_root: Path, tmp_path: Path
) -> None:
    """A soft prompt of GPT-2 contains the base's position vectors."""
    folder = model_root / "tiny" / "gpt2"
    gpt2().save_pretrained(folder)
    job = client.base_models.import_folder("tiny-gpt2", "models/tiny/gpt2")
    imported = client.jobs.wait(job.id, timeout=PATIENCE)
    assert imported.succeeded, imported.error
    spec = {**ADAPT, "base_model": "tiny-gpt2", "method": {"name": "soft_prompt", "length": 2}}
    job = client.jobs.wait(client.jobs.submit(spec).id, timeout=PATIENCE)
    assert job.succeeded, job.error
    (checkpoint,) = client.jobs.checkpoints(job.id)
    client.checkpoints.export(checkpoint, tmp_path / "peft")
    base = GPT2LMHeadModel.from_pretrained(folder)
    positions = base.transformer.wpe.weight.detach().clone()
    adapted = PeftModel.from_pretrained(base, tmp_path / "peft")
    assert adapted.peft_config["default"].base_model_name_or_path == "models/tiny/gpt2"
    moved = dict(adapted.named_parameters())[MOVED].detach()
    assert torch.equal(moved[2:], positions[: len(moved) - 2])
    with_weights(folder, **{"transformer.ln_f.bias": np.ones(24, np.float32)})
    with pytest.raises(InvalidRequest, match="models/tiny/gpt2 is not as it was"):
        client.checkpoints.export(checkpoint, tmp_path / "again")
