"""Imports: their specs, and the identity of model folders.

Tests cover what becomes of the specs, and what tells one folder from another.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter
from safetensors.numpy import load_file
from tests.folders import (
    MASK,
    PARAMETERS,
    QUERY,
    WEIGHTS,
    a_bert_folder,
    a_model_folder,
    with_weights,
)

from adaptlab.errors import BadModelFolder, InvalidSpec
from adaptlab.plugins.registry import as_json
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve, resolve_import
from adaptlab.specs.resolved import ResolvedImport, read_resolved, spec_digest, write_resolved
from adaptlab.specs.spec import (
    AdaptSpec,
    AnySpec,
    ImportSpec,
    JobSpec,
    ModelFolder,
    PretrainSpec,
    ResolvedSpec,
    StoredModelFile,
)
from adaptlab.weights.model_folder import check_folder, fingerprint
from adaptlab.weights.placed_folder import PlacedFolder

JOBS: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)
SMALL = {"name": "sort_ascending", "length": 3, "alphabet": 4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return a_model_folder(tmp_path / "llama")


def spec(**changes: object) -> ImportSpec:
    document = {"kind": "import", "name": "llama", "folder": "models/llama", **changes}
    found = JOBS.validate_json(json.dumps(document), strict=True)
    assert isinstance(found, ImportSpec)
    return found


def resolved(folder: Path, **changes: object) -> ResolvedImport:
    checked = check_folder(folder)
    found = ModelFolder(folder="models/llama", files=fingerprint(checked))
    return resolve_import(spec(**changes), checked.family, found)


def test_an_import_is_a_whole_model_and_no_training(folder: Path) -> None:
    found = resolved(folder)
    assert found.budget.trainable_parameters == PARAMETERS
    assert (found.task, found.method, found.evaluation_tasks) == (None, None, ())
    assert (found.training, found.seeds) == (None, (0,))
    assert (found.family.name, as_json(found.family)["vocabulary"]) == ("llama", 12)
    document = ResolvedSpec.model_validate_json(write_resolved(found).model_dump_json())
    assert (document.training.steps, read_resolved(document)) == (0, found)


def test_the_digest_of_an_import_is_that_of_earlier_versions(folder: Path) -> None:
    """Computed by the version without uploaded folders, as below."""
    placed = resolved(folder)
    before = "5601b5952d3ded5c750d2f82683c3c44b0d488cf2c557af9acd0375a72215407"
    assert spec_digest(placed) == before
    stored = (StoredModelFile(name="config.json", sha256="0" * 64),)
    uploaded = placed.model_folder.model_copy(update={"stored": stored})
    assert spec_digest(placed.model_copy(update={"model_folder": uploaded})) != before


def test_only_tasks_that_fit_are_scored(folder: Path) -> None:
    found = resolved(folder, evaluation={"tasks": [SMALL], "samples": 9})
    assert [task.name for task in found.evaluation_tasks] == ["sort_ascending"]
    with pytest.raises(InvalidSpec) as caught:
        resolved(folder, evaluation={"tasks": [SMALL, {**SMALL, "alphabet": 11}]})
    (problem,) = caught.value.problems
    assert problem.pointer == "/evaluation/tasks/1"
    assert problem.code == "vocabulary_too_small"
    assert problem.nearest == (12,)


def test_a_task_that_uses_the_mask_of_an_encoder_is_refused(tmp_path: Path) -> None:
    encoder = a_bert_folder(tmp_path / "bert")
    assert resolved(encoder, evaluation={"tasks": [{**SMALL, "alphabet": 9}], "samples": 9})
    with pytest.raises(InvalidSpec) as caught:
        resolved(encoder, evaluation={"tasks": [{**SMALL, "alphabet": 10}], "samples": 9})
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/evaluation/tasks/0", "mask_is_a_token")
    assert problem.nearest == (MASK,)
    assert problem.detail == (
        "sort_ascending has tokens up to 11, and 11 is the model's mask token. Use a task with "
        "at most 11 tokens."
    )


def test_a_file_that_was_exchanged_for_a_link_out_of_the_root_is_not_read(
    folder: Path, tmp_path: Path
) -> None:
    files = fingerprint(check_folder(folder))
    outside = (tmp_path / "outside").with_suffix(".safetensors")
    (folder / WEIGHTS).rename(outside)
    (folder / WEIGHTS).symlink_to(outside)
    linked = PlacedFolder(path=folder, name="models/llama", files=files)
    assert linked.checked().sources
    within = linked.model_copy(update={"within": folder})
    with pytest.raises(BadModelFolder, match="outside its model root"):
        within.checked()


def test_an_imported_model_is_adapted_to_tasks_that_need_less_of_it(folder: Path) -> None:
    found = resolved(folder)
    facts = BaseModelFacts(
        name="llama", digest="0" * 64, family=found.family, task=None, replicates=1
    )
    adaptation = AdaptSpec.model_validate(
        {"base_model": "llama", "task": SMALL, "method": {"name": "lora", "rank": 1}}
    )
    assert resolve(adaptation, facts).base_tasks == ()
    large = adaptation.model_copy(
        update={"task": adaptation.task.model_copy(update={"alphabet": 11})}
    )
    with pytest.raises(InvalidSpec, match=r"vocabulary of 13. The model has 12"):
        resolve(large, facts)


def test_a_base_model_can_be_given_inline_in_three_ways() -> None:
    document = {"kind": "adapt", "task": "add", "method": "lora", "budget": 9}

    def base(value: object) -> object:
        text = json.dumps({**document, "base_model": value})
        found = JOBS.validate_json(text, strict=True)
        assert isinstance(found, AdaptSpec)
        return found.base_model

    assert base("llama") == "llama"
    assert base({"kind": "import", "name": "llama", "folder": "models/llama"}) == spec()
    pretraining = {"name": "small", "family": "minigpt", "task": "add"}
    assert isinstance(base(pretraining), PretrainSpec)
    assert base({"kind": "pretrain", **pretraining}) == base(pretraining)


def test_the_digest_tells_models_apart_without_reading_them_whole(folder: Path) -> None:
    known = spec_digest(resolved(folder))
    other = a_model_folder(folder.parent / "other", seed=2)
    assert (other / WEIGHTS).stat().st_size == (folder / WEIGHTS).stat().st_size
    assert spec_digest(resolved(other)) != known
    copied = Path(shutil.copytree(folder, folder.parent / "copy"))
    assert spec_digest(resolved(copied)) == known


@pytest.mark.parametrize("name", [QUERY, "lm_head.weight", "model.norm.weight"])
def test_one_number_of_a_small_tensor_changes_the_fingerprint(folder: Path, name: str) -> None:
    before = {file.name: file for file in fingerprint(check_folder(folder))}
    tensor = load_file(folder / WEIGHTS)[name]
    tensor.flat[-1] += np.float32(1)
    with_weights(folder, **{name: tensor})
    after = {file.name: file for file in fingerprint(check_folder(folder))}
    assert {n for n in before if before[n] != after[n]} == {WEIGHTS}


def test_of_a_large_tensor_a_sample_from_its_middle_counts(tmp_path: Path) -> None:
    from adaptlab.weights.model_folder import SAMPLE_BYTES

    folder = a_model_folder(tmp_path / "wide")
    config = json.loads((folder / "config.json").read_text())
    rows = 2 * SAMPLE_BYTES // (4 * 8)
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": rows}))
    table = np.zeros((rows, 8), np.float32)
    seen: list[object] = []
    for row in (0, rows // 2, rows - 1):
        changed = table.copy()
        changed[row] = 1
        with_weights(folder, **{"model.embed_tokens.weight": changed, "lm_head.weight": table})
        seen.append(fingerprint(check_folder(folder)))
    assert seen[0] == seen[2] != seen[1]
