"""Texts, images and demonstrations: runs on a GPU and on the CPU agree."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tests.engine.image_models import IMAGES
from tests.engine.making import Remembering, made_base
from tests.engine.published import randomised
from tests.engine.running import run
from tests.engine.text_jobs import pretraining
from tests.engine.text_models import folder_maker, head_job
from tests.gpu.both import furthest
from tests.texts import CLASSIFICATION, COMPLETION, Stored, reviews, stored

from adaptlab.engine.training.step_graph import use_graphs
from adaptlab.runs.events import CheckpointWritten, Evaluated
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import Resolved
from adaptlab.specs.spec import AdaptSpec, PretrainSpec
from adaptlab.weights.model_folder import check_folder, fingerprint
from adaptlab.weights.placed_folder import PlacedFolder

pytestmark = pytest.mark.gpu

STORED = 1e-5
"""Weights are stored in float32."""
TRAINING = {"steps": 6, "batch_size": 6, "precision": "float64", "validations": 1}
METHODS: tuple[dict[str, Any], ...] = (
    {"name": "lora", "rank": 2},
    {"name": "prefix_tuning", "length": 3},
    {"name": "soft_prompt", "length": 3},
    {"name": "full_finetuning"},
)
each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method["name"])


@pytest.fixture
def data(tmp_path: Path) -> Stored:
    return stored(tmp_path, reviews(160))


@pytest.fixture
def graphs() -> None:
    """Record steps, as a worker's trainer does."""
    use_graphs()


def agree(
    spec: Resolved,
    scratch: Path,
    *,
    bases: tuple[Path, ...] = (),
    folder: PlacedFolder | None = None,
    datasets: tuple[Path, ...] = (),
) -> Remembering:
    """Run on both devices; weights and outcomes are the same."""
    told: list[Remembering] = []
    for device in ("cpu", "cuda"):
        (scratch / device).mkdir()
        told.append(Remembering())
        run(spec, bases, scratch / device, told[-1], device, folder=folder, datasets=datasets)
    written = [
        [load_file(each.path) for each in observer.of(CheckpointWritten)] for observer in told
    ]
    for here, there in zip(*written, strict=True):
        assert here.keys() == there.keys()
        assert all(furthest(there[name], tensor) < STORED for name, tensor in here.items())
    outcomes = [[each.evaluation.outcomes for each in observer.of(Evaluated)] for observer in told]
    assert outcomes[0] == outcomes[1] != []
    return told[1]


@pytest.mark.parametrize("task", [CLASSIFICATION, COMPLETION], ids=lambda task: task["name"])
def test_pretraining_on_texts(task: dict[str, Any], data: Stored, graphs: None, tmp_path: Path):
    spec = pretraining(data, task, training={**TRAINING, "steps": 12})
    agree(spec, tmp_path, datasets=(data.path,))


@each_method
@pytest.mark.parametrize("model", ["bert-alone", "qwen3"])
def test_classes_of_texts(
    model: str, method: dict[str, Any], data: Stored, graphs: None, tmp_path: Path
):
    folder = folder_maker(tmp_path)(model)
    family = check_folder(folder.path).family
    spec = head_job(data, family, method=method, budget={}, training=TRAINING)
    agree(spec, tmp_path, folder=folder, datasets=(data.path,))


@each_method
def test_images(method: dict[str, Any], graphs: None, tmp_path: Path):
    path = tmp_path / "vit"
    randomised(IMAGES["vit"], double=False).save_pretrained(path)
    folder = PlacedFolder(path=path, name="vit", files=fingerprint(check_folder(path)))
    family = check_folder(path).family
    facts = BaseModelFacts(name="base", digest="0" * 64, family=family, task=None, replicates=1)
    document = {
        "base_model": "base",
        "task": {"name": "digit_images", "digits": [5, 6, 7, 8, 9]},
        "method": method,
        "training": TRAINING,
        "tuning": {"learning_rates": [0.01, 0.03], "validation_samples": 40},
        "seeds": 2,
        "evaluation": {"samples": 40},
    }
    agree(resolve(AdaptSpec.model_validate(document), facts), tmp_path, folder=folder)


def test_demonstrations(graphs: None, tmp_path: Path):
    exact = {"steps": 20, "batch_size": 8, "precision": "float64"}
    document = {
        "name": "base",
        "family": {"name": "minigpt", "layers": 2, "heads": 2, "width": 16},
        "task": {"name": "episodes"},
        "training": exact,
        "seeds": 2,
    }
    facts, files = made_base(PretrainSpec.model_validate(document), tmp_path)
    document = {
        "base_model": "base",
        "task": {"name": "episodes", "shots": 0, "labels": "fixed", "map_seed": 1},
        "method": "in_context",
        "budget": 100,
        "training": {"precision": "float64"},
        "evaluation": {"samples": 64},
        "seeds": 4,
        "tuning": {"trials": 2},
    }
    agree(resolve(AdaptSpec.model_validate(document), facts), tmp_path, bases=files)
