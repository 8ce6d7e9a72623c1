"""Imports: the weights of a folder as a base model.

The base model is then adapted like any other.
"""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.engine.imported import SAMPLES, placed, resolved
from tests.engine.making import Remembering
from tests.engine.published import gpt2, llama, randomised, their_output
from tests.engine.running import run
from tests.folders import QUERY, WEIGHTS, a_qwen3_folder
from tests.texts import a_byte_pair_tokeniser, reviews
from transformers import PreTrainedModel

from adaptlab.engine.items.digits import make_items, target_rows
from adaptlab.engine.items.task_items import ITEM_SEED, as_digit_task
from adaptlab.engine.models.huggingface import load_folder, mapped_tensors
from adaptlab.errors import BadModelFolder, OutOfMemory, TrainingStopped
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.task import TASKS
from adaptlab.runs.events import (
    AnswersGiven,
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
    Event,
    Finished,
    ItemsShown,
    Progress,
    ReplicatesDecided,
    Started,
)
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedImport, spec_digest
from adaptlab.specs.spec import AdaptSpec
from adaptlab.weights.model_folder import check_folder
from adaptlab.weights.placed_folder import PlacedFolder
from adaptlab.weights.weights_file import opened

EASY = {"name": "sort_ascending", "length": 1, "alphabet": 6}
SMALL = {"name": "sort_descending", "length": 4, "alphabet": 5}


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


def imported(
    spec: ResolvedImport, folder: Path | None, scratch: Path, memory_bytes: int | None = None
) -> Remembering:
    observer, where = Remembering(), None if folder is None else placed(spec, folder)
    run(
        spec,
        *((), scratch, observer, "cpu"),
        folder=where,
        clock=lambda: 0.0,
        memory_bytes=memory_bytes,
    )
    return observer


def copied(folder: Path, scratch: Path) -> Path:
    """The weights as an earlier version stored them: float32, under our names."""
    copy = scratch / "base-0.safetensors"
    save_file({n: t.clone() for n, t in load_folder(folder).tensors.items()}, copy)
    return copy


def bits(observer: Remembering, *, attached: bool = True) -> list[str]:
    return [
        e.evaluation.outcomes for e in observer.of(Evaluated) if e.evaluation.attached is attached
    ]


def adapted(
    spec: ResolvedImport,
    base: PlacedFolder | Path,
    scratch: Path,
    method: object,
    *,
    memory_bytes: int | None = None,
    observer: Remembering | None = None,
    **changes: object,
) -> Remembering:
    """An adaptation of a model in its folder, or of a stored copy."""
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
    observer = Remembering() if observer is None else observer
    run(
        resolve(adaptation, facts),
        (base,) if isinstance(base, Path) else (),
        scratch,
        observer,
        "cpu",
        folder=None if isinstance(base, Path) else base,
        memory_bytes=memory_bytes,
    )
    return observer


def test_an_import_reports_what_a_pretraining_does_but_no_weights(
    folder: Path, scratch: Path
) -> None:
    observer = imported(resolved(folder, EASY), folder, scratch)
    assert not list(scratch.iterdir())
    answered: list[type[Event]] = [ItemsShown, AnswersGiven]
    kinds: list[type[Event]] = [Started, ReplicatesDecided, Evaluated, *answered, Finished]
    assert [type(one) for one in observer.events if not isinstance(one, Progress)] == kinds
    (decided,) = observer.of(ReplicatesDecided)
    assert [(r.replicate, r.seed, r.selected, r.steps) for r in decided.replicates] == [
        (0, 0, True, 0)
    ]


def test_its_scores_are_those_that_transformers_gives(
    theirs: PreTrainedModel, folder: Path, scratch: Path
) -> None:
    observer = imported(resolved(folder, EASY), folder, scratch)
    task = as_digit_task(by_name(TASKS, EASY))
    items = make_items(task, "test", torch.tensor([ITEM_SEED]), 0, SAMPLES)
    answers = their_output(theirs, items.tokens[0], double=False).logits.argmax(-1)
    right = (answers[:, target_rows(task)] == items.targets[0]).all(-1).numpy()
    assert bits(observer) == [np.packbits(right).tobytes().hex()]


def test_an_import_scores_what_its_adaptations_start_from(folder: Path, scratch: Path) -> None:
    spec = resolved(folder, EASY, SMALL)
    tasks = {"tasks": [EASY, SMALL], "samples": SAMPLES}
    frozen = adapted(spec, placed(spec, folder), scratch, "frozen", evaluation=tasks)
    assert bits(frozen) == bits(imported(spec, folder, scratch))


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
    attention = {"attention": {"samples": 1}}
    observer = adapted(spec, placed(spec, folder), scratch, method, capture=attention)
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


CHANGES = pytest.mark.parametrize(
    ("change", "told"),
    [(_later_weights, WEIGHTS), (_other_configuration, "config.json")],
)


@CHANGES
def test_a_folder_that_changed_after_the_job_was_made_is_refused(
    folder: Path, scratch: Path, change: Callable[[Path], None], told: str
) -> None:
    spec = resolved(folder)
    change(folder)
    check_folder(folder)  # whole in itself
    with pytest.raises(BadModelFolder, match=f"models/tiny is not as it was .*: {told}"):
        imported(spec, folder, scratch)


@CHANGES
def test_a_changed_folder_is_refused_before_the_first_step(
    folder: Path, scratch: Path, change: Callable[[Path], None], told: str
) -> None:
    spec, observer = resolved(folder), Remembering()
    change(folder)
    refused = rf": {told} \(digest \w{{12}}, was \w{{12}}\)\. Restore it and retry the job"
    with pytest.raises(BadModelFolder, match=refused):
        adapted(spec, placed(spec, folder), scratch, "layernorm_tuning", observer=observer)
    assert [type(event) for event in observer.events] == [Started]
    assert not list(scratch.iterdir())


class _Changing(Remembering):
    """Changes the folder, by a new file, when training begins."""

    def __init__(self, change: Callable[[], None]) -> None:
        super().__init__()
        self.change = change

    def emit(self, event: Event) -> None:
        if isinstance(event, ReplicatesDecided):
            self.change()
        super().emit(event)


def test_a_folder_that_changes_during_a_run_fails_it(folder: Path, scratch: Path) -> None:
    spec = resolved(folder)
    observer = _Changing(lambda: _other_configuration(folder))
    with pytest.raises(BadModelFolder, match=r"models/tiny is not as it was .*: config.json"):
        adapted(spec, placed(spec, folder), scratch, "layernorm_tuning", observer=observer)
    assert not observer.of(Finished)


def test_a_file_that_cannot_be_read_is_named(
    folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = resolved(folder)

    def closed(path: Path, within: Path | None = None) -> BinaryIO:
        if path.name == WEIGHTS:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, within)

    monkeypatch.setattr("adaptlab.weights.folder_files.opened", closed)
    with pytest.raises(BadModelFolder, match=f"{WEIGHTS} cannot be read: Permission denied"):
        adapted(spec, placed(spec, folder), scratch, "layernorm_tuning")


def _saved(make: Callable[[], PreTrainedModel], dtype: torch.dtype) -> Callable[[Path], object]:
    def save(folder: Path) -> None:
        model: Any = randomised(make, double=False)
        model.to(dtype).save_pretrained(folder)

    return save


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(_saved(llama, torch.float32), id="llama-float32"),
        pytest.param(_saved(llama, torch.bfloat16), id="llama-bfloat16"),
        pytest.param(_saved(llama, torch.float16), id="llama-float16"),
        pytest.param(_saved(gpt2, torch.float32), id="gpt2-float32"),
        pytest.param(_saved(gpt2, torch.bfloat16), id="gpt2-bfloat16"),
        pytest.param(a_qwen3_folder, id="library-float32"),
    ],
)
def test_an_adaptation_of_a_folder_equals_that_of_a_copy_to_the_last_bit(
    tmp_path: Path, write: Callable[[Path], object]
) -> None:
    write(tmp_path / "model")
    spec = resolved(tmp_path / "model")
    scores: list[list[str]] = []
    adapters: list[bytes] = []
    for base in (placed(spec, tmp_path / "model"), copied(tmp_path / "model", tmp_path)):
        scratch = tmp_path / type(base).__name__
        scratch.mkdir()
        run = adapted(spec, base, scratch, {"name": "lora", "rank": 1})
        (written,) = run.of(CheckpointWritten)
        scores.append(bits(run))
        adapters.append(written.path.read_bytes())
    assert scores[0] == scores[1]
    assert adapters[0] == adapters[1]


def test_a_float32_file_is_mapped_and_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "llama"
    model = randomised(lambda: llama(hidden_size=512, intermediate_size=1024), double=False)
    model.save_pretrained(folder)
    checked = check_folder(folder)
    tensors = mapped_tensors(checked, checked.sources, torch.float32)
    mapped, resident = _mapped(folder / WEIGHTS)
    size = (folder / WEIGHTS).stat().st_size
    assert mapped >= size > 2**20
    assert resident < size / 4
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    assert _mapped(folder / WEIGHTS)[1] > size / 2  # the measure notices what is read


def _mapped(file: Path) -> tuple[int, int]:
    """Return the bytes that a file backs, and those of them in memory.

    They are bytes of this process.
    """
    size = resident = 0
    counts = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            counts = line.endswith(str(file.resolve()))
        elif counts and name in ("Size:", "Rss:"):
            size += int(rest[0]) * 1024 * (name == "Size:")
            resident += int(rest[0]) * 1024 * (name == "Rss:")
    return size, resident


def test_a_model_that_is_larger_than_the_memory_is_refused_with_the_numbers(
    folder: Path, scratch: Path
) -> None:
    spec = resolved(folder)
    scalars = sum(tensor.size for tensor in spec.family.shape().tensors.values())
    told = f"has {scalars:,} parameters, which need {4 * scalars:,} bytes in float32"
    short = 4 * scalars - 1
    with pytest.raises(OutOfMemory, match=f"{told}. This worker has {short:,} bytes for a run"):
        imported(spec, folder, scratch, memory_bytes=short)
    with pytest.raises(OutOfMemory, match=told):
        adapted(spec, placed(spec, folder), scratch, "layernorm_tuning", memory_bytes=short)
    imported(spec, folder, scratch, memory_bytes=4 * scalars)


def test_a_folder_elsewhere_with_the_same_content_will_do(folder: Path, scratch: Path) -> None:
    spec = resolved(folder)
    elsewhere = Path(shutil.copytree(folder, folder.parent / "elsewhere"))
    assert imported(spec, elsewhere, scratch).of(Finished)


def test_weights_that_are_not_finite_are_refused_in_the_run(folder: Path, scratch: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors[QUERY][3, 2] = torch.inf
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    spec = resolved(folder)  # the headers tell nothing of it
    with pytest.raises(BadModelFolder, match=f"{QUERY} holds values that are not finite"):
        imported(spec, folder, scratch)


def test_a_tokeniser_that_the_library_reads_otherwise_is_not_imported(
    tmp_path: Path, scratch: Path
) -> None:
    folder = a_qwen3_folder(tmp_path / "qwen3", vocabulary=320)
    texts = [record["text"] for record in reviews(60)]
    (folder / "tokenizer.json").write_bytes(a_byte_pair_tokeniser(texts))
    own = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    with pytest.raises(BadModelFolder, match=r"with tokenizer_config\.json as"):
        imported(resolved(folder), folder, scratch)


def test_without_a_folder_nothing_can_be_imported(folder: Path, scratch: Path) -> None:
    with pytest.raises(BadModelFolder, match="where the model folder is"):
        imported(resolved(folder), None, scratch)


def test_an_import_stops_when_it_is_told_to(folder: Path, scratch: Path) -> None:
    observer, spec = Remembering(stop_after=0), resolved(folder)
    with pytest.raises(TrainingStopped):
        run(spec, (), scratch, observer, "cpu", folder=placed(spec, folder))
    assert not observer.of(ReplicatesDecided)
