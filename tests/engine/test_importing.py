"""Imports: the weights of a folder as a base model, which is then adapted like any other."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.engine.making import Remembering
from tests.engine.published import gpt2, llama, randomised, their_output
from tests.folders import QUERY, WEIGHTS
from transformers import PreTrainedModel

from adaptlab.engine.digits import make_items, target_rows
from adaptlab.engine.evaluate import ITEM_SEED
from adaptlab.engine.plan import as_digit_task
from adaptlab.engine.run import run
from adaptlab.errors import BadModelFolder, TrainingStopped
from adaptlab.measurements.results import (
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
    Event,
    Finished,
    ReplicatesDecided,
    Started,
)
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.task import TASKS
from adaptlab.specs.resolve import BaseModelFacts, resolve, resolve_import
from adaptlab.specs.resolved import ResolvedImport, spec_digest
from adaptlab.specs.spec import AdaptSpec, ImportSpec, ModelFolder
from adaptlab.weights.model_folder import check_folder, fingerprint

EASY = {"name": "sort_ascending", "length": 1, "alphabet": 6}
SMALL = {"name": "sort_descending", "length": 4, "alphabet": 5}
SAMPLES = 60


@pytest.fixture
def theirs() -> PreTrainedModel:
    return randomised(llama, double=False)


@pytest.fixture
def folder(theirs: PreTrainedModel, tmp_path: Path) -> Path:
    theirs.save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def resolved(folder: Path, *tasks: dict[str, object]) -> ResolvedImport:
    spec = ImportSpec.model_validate(
        {
            "name": "tiny",
            "folder": "models/tiny",
            "evaluation": {"tasks": tasks, "samples": SAMPLES},
        }
    )
    checked = check_folder(folder)
    found = ModelFolder(folder=spec.folder, files=fingerprint(checked))
    return resolve_import(spec, checked.family, found)


def imported(spec: ResolvedImport, folder: Path | None, scratch: Path) -> Remembering:
    observer = Remembering()
    run(spec, (), scratch, observer, "cpu", folder=folder, clock=lambda: 0.0)
    return observer


def checkpoint(observer: Remembering) -> Path:
    (written,) = observer.of(CheckpointWritten)
    return written.path


def bits(observer: Remembering, *, attached: bool = True) -> list[str]:
    return [
        e.evaluation.outcomes for e in observer.of(Evaluated) if e.evaluation.attached is attached
    ]


def adapted(
    spec: ResolvedImport, base: Path, scratch: Path, method: object, **changes: object
) -> Remembering:
    facts = BaseModelFacts(
        name="tiny", digest=spec_digest(spec), family=spec.family, task=None, replicates=1
    )
    adaptation = AdaptSpec.model_validate(
        {
            "base_model": "tiny",
            "task": SMALL,
            "method": method,
            "training": {"steps": 3, "batch_size": 4},
            "evaluation": {"samples": SAMPLES},
            **changes,
        }
    )
    observer = Remembering()
    run(resolve(adaptation, facts), (base,), scratch, observer, "cpu")
    return observer


def test_an_import_reports_what_a_pretraining_does(folder: Path, scratch: Path) -> None:
    observer = imported(resolved(folder, EASY), folder, scratch)
    kinds: list[type[Event]] = [Started, ReplicatesDecided, CheckpointWritten, Evaluated, Finished]
    assert [type(event) for event in observer.events] == kinds
    (decided,) = observer.of(ReplicatesDecided)
    assert [(r.replicate, r.seed, r.selected, r.steps) for r in decided.replicates] == [
        (0, 0, True, 0)
    ]


def test_the_checkpoint_holds_the_weights_as_they_are(folder: Path, scratch: Path) -> None:
    observer = imported(resolved(folder), folder, scratch)
    assert observer.of(Evaluated) == []
    (written,) = observer.of(CheckpointWritten)
    stored, source = load_file(written.path), load_file(folder / WEIGHTS)
    assert written.checkpoint.kind == "base_model"
    assert sum(t.numel() for t in stored.values()) == sum(t.numel() for t in source.values())
    assert torch.equal(stored["blocks.0.attn.q.weight"], source[QUERY])
    assert torch.equal(stored["unembed.weight"], source["lm_head.weight"])


def test_its_scores_are_those_that_transformers_gives(
    theirs: PreTrainedModel, folder: Path, scratch: Path
) -> None:
    observer = imported(resolved(folder, EASY), folder, scratch)
    task = as_digit_task(by_name(TASKS, EASY))
    items = make_items(task, "test", torch.tensor([ITEM_SEED]), 0, SAMPLES)
    answers = their_output(theirs, items.tokens[0], double=False).logits.argmax(-1)
    right = (answers[:, target_rows(task)] == items.targets[0]).all(-1).numpy()
    assert bits(observer) == [np.packbits(right).tobytes().hex()]


def test_a_model_is_scored_the_same_before_and_after_it_is_stored(
    folder: Path, scratch: Path
) -> None:
    spec = resolved(folder, EASY, SMALL)
    first = imported(spec, folder, scratch)
    frozen = adapted(
        spec,
        checkpoint(first),
        scratch,
        "frozen",
        evaluation={"tasks": [EASY, SMALL], "samples": SAMPLES},
    )
    assert bits(frozen) == bits(first)


@pytest.mark.parametrize(
    "method",
    [
        {"name": "lora", "rank": 1},
        {"name": "prefix_tuning", "length": 2},
        {"name": "soft_prompt", "length": 2},
        {"name": "full_finetuning"},
    ],
)
@pytest.mark.parametrize("make", [llama, gpt2])
def test_what_was_imported_is_adapted_and_looked_at(
    make: Callable[[], PreTrainedModel],
    method: dict[str, object],
    tmp_path: Path,
    scratch: Path,
) -> None:
    folder = tmp_path / "model"
    randomised(make, double=False).save_pretrained(folder)
    spec = resolved(folder)
    base = checkpoint(imported(spec, folder, scratch))
    observer = adapted(spec, base, scratch, method, capture={"attention": {"samples": 1}})
    assert [c.attention.source for c in observer.of(AttentionCaptured)] == ["base", "adapted"]
    assert [w.checkpoint.kind for w in observer.of(CheckpointWritten)] == ["adapter"]
    assert len(bits(observer)) == len(bits(observer, attached=False)) == 1


def _later_weights(folder: Path) -> None:
    later, known = torch.Generator().manual_seed(77), load_file(folder / WEIGHTS)
    tensors = {name: torch.randn(t.shape, generator=later) for name, t in known.items()}
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def _other_configuration(folder: Path) -> None:
    text = (folder / "config.json").read_text()
    config = {**json.loads(text), "rms_norm_eps": 0.1}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "told"),
    [(_later_weights, WEIGHTS), (_other_configuration, "config.json")],
)
def test_a_folder_that_changed_after_the_job_was_made_is_refused(
    folder: Path, scratch: Path, change: Callable[[Path], None], told: str
) -> None:
    spec = resolved(folder)
    change(folder)
    check_folder(folder)  # whole in itself
    with pytest.raises(BadModelFolder, match=f"^{told} changed after the job was created"):
        imported(spec, folder, scratch)
    assert not list(scratch.iterdir())


def test_a_folder_elsewhere_with_the_same_content_will_do(folder: Path, scratch: Path) -> None:
    spec = resolved(folder)
    elsewhere = Path(shutil.copytree(folder, folder.parent / "elsewhere"))
    checkpoint(imported(spec, elsewhere, scratch))


def test_weights_that_are_not_finite_are_refused_in_the_run(folder: Path, scratch: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors[QUERY][3, 2] = torch.inf
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    spec = resolved(folder)  # the headers tell nothing of it
    with pytest.raises(BadModelFolder, match=f"{QUERY} holds values that are not finite"):
        imported(spec, folder, scratch)
    assert not list(scratch.iterdir())


def test_without_a_folder_nothing_can_be_imported(folder: Path, scratch: Path) -> None:
    with pytest.raises(BadModelFolder, match="where the model folder is"):
        imported(resolved(folder), None, scratch)


def test_an_import_stops_when_it_is_told_to(folder: Path, scratch: Path) -> None:
    observer = Remembering(stop_after=0)
    with pytest.raises(TrainingStopped):
        run(resolved(folder), (), scratch, observer, "cpu", folder=folder)
    assert not observer.of(CheckpointWritten)
