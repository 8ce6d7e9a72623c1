"""Whole runs on a GPU: results, resumed runs, attention, imported models."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.engine.imported import placed, resolved
from tests.engine.library_models import MODELS
from tests.engine.making import Remembering, made_base
from tests.engine.published import pair, randomised
from tests.engine.running import run
from tests.engine.tiny import TASK, adapting, pretraining
from tests.gpu.both import CUDA, furthest
from transformers import PreTrainedModel

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import NOTHING_ATTACHED
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.errors import TrainingStopped
from adaptlab.runs.events import (
    AttentionCaptured,
    CheckpointWritten,
    Evaluated,
    TrainingSaved,
)
from adaptlab.specs.resolve import resolve

pytestmark = pytest.mark.gpu

EXACT = {"steps": 30, "batch_size": 16, "precision": "float64"}
ROTARY = 1e-6  # the library's table of rotary frequencies is in float32
METHODS = ({"name": "lora", "rank": 2}, {"name": "prefix_tuning", "length": 3})


def weights(observer: Remembering) -> list[dict[str, torch.Tensor]]:
    return [load_file(written.path) for written in observer.of(CheckpointWritten)]


def test_pretraining_there_gives_the_weights_and_scores_of_here(tmp_path: Path):
    spec, seen = resolve(pretraining(training=EXACT), None), dict[str, Remembering]()
    for device in ("cpu", "cuda"):
        seen[device] = Remembering()
        (tmp_path / device).mkdir()
        run(spec, (), tmp_path / device, seen[device], device)
    for here, there in zip(*map(weights, seen.values()), strict=True):
        for name, tensor in here.items():
            assert furthest(there[name], tensor) < 1e-5  # stored in float32
    here, there = (
        [found.evaluation.outcomes for found in each.of(Evaluated)] for each in seen.values()
    )
    assert here == there


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method["name"])
def test_an_adaptation_captures_the_attention_that_the_cpu_captures(
    method: dict[str, object], tmp_path: Path
):
    facts, files = made_base(pretraining(training=EXACT), tmp_path)
    training = {**EXACT, "steps": 20}
    capture = {"attention": {"samples": 2}}
    spec = resolve(adapting(method, training=training, capture=capture), facts)
    captured: list[list[AttentionCaptured]] = []
    for device in ("cpu", "cuda"):
        observer = Remembering()
        (tmp_path / device).mkdir()
        run(spec, files, tmp_path / device, observer, device)
        captured.append(observer.of(AttentionCaptured))
    assert len(captured[0]) == len(captured[1]) > 0
    for here, there in zip(*captured, strict=True):
        assert here.attention.predictions == there.attention.predictions
        assert np.abs(np.load(here.path) - np.load(there.path)).max() < 1e-3  # float16


def test_a_resumed_run_ends_as_the_unbroken_one(tmp_path: Path):
    spec, whole = resolve(pretraining(training=EXACT), None), Remembering()
    run(spec, (), tmp_path, whole, "cuda")
    unbroken = weights(whole)
    broken, after = Remembering(12, 12), Remembering()
    with pytest.raises(TrainingStopped):
        run(spec, (), tmp_path, broken, "cuda")
    (saved,) = broken.of(TrainingSaved)
    run(spec, (), tmp_path, after, "cuda", saved.path)
    for there, here in zip(weights(after), unbroken, strict=True):
        assert all(furthest(there[name], tensor) < 1e-5 for name, tensor in here.items())


def test_a_run_that_was_saved_on_a_gpu_goes_on_without_one(tmp_path: Path):
    spec, broken = resolve(pretraining(training=EXACT), None), Remembering(12, 12)
    with pytest.raises(TrainingStopped):
        run(spec, (), tmp_path, broken, "cuda")
    (saved,), whole, after = broken.of(TrainingSaved), Remembering(), Remembering()
    run(spec, (), tmp_path, after, "cpu", saved.path)
    moved = weights(after)
    run(spec, (), tmp_path, whole, "cpu")
    for there, here in zip(moved, weights(whole), strict=True):
        assert all(furthest(there[name], tensor) < 1e-5 for name, tensor in here.items())


def test_an_imported_model_scores_as_on_the_cpu(tmp_path: Path):
    theirs: PreTrainedModel = randomised(MODELS["qwen3"], double=False)
    theirs.save_pretrained(tmp_path / "model")
    spec = resolved(tmp_path / "model", {**TASK}, {**TASK, "name": "sort_descending"})
    found: list[list[object]] = []
    for device in ("cpu", "cuda"):
        observer = Remembering()
        place = placed(spec, tmp_path / "model")
        run(spec, (), tmp_path, observer, device, folder=place)
        found.append([each.evaluation.outcomes for each in observer.of(Evaluated)])
    assert found[0] == found[1] != []


@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_computes_what_it_computes_on_the_cpu(name: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=True)
    here, there = LayerRecorder(), LayerRecorder()
    logits = both.logits(recorder=here)
    weights = {name: tensor.unsqueeze(0).to(CUDA) for name, tensor in both.ours.tensors.items()}
    tokens = both.tokens().unsqueeze(0).to(CUDA)
    forward = ENGINE_FAMILIES.get(both.ours.family.name)
    found = forward(both.ours.family, weights, tokens, NOTHING_ATTACHED, slice(None), there)
    assert found.is_cuda
    assert furthest(found.squeeze(0).cpu(), logits) < ROTARY
    for ours, theirs in zip(there.patterns, here.patterns, strict=True):
        assert furthest(ours.cpu(), theirs) < ROTARY
