"""Reports of real runs, as their specs lead the server to expect."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.making import ANYWHERE, SMALL_OF_EACH, Remembering, made_base
from tests.engine.running import run
from tests.making import a_pretrain_document, an_adapt_document

from adaptlab.plugins.method import METHODS
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import AttentionCaptured, CheckpointWritten
from adaptlab.runs.reported_attention import LARGEST_HEADER, is_map_file
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolve_theory import resolve_theory
from adaptlab.specs.spec import AdaptSpec, PretrainSpec, TheorySpec
from adaptlab.weights.weights_file import read_header

CAPTURE = {"attention": {"samples": 2}}
FAMILIES: dict[str, dict[str, Any]] = {
    **{name: one.model_dump(mode="json")
       for name, one in SMALL_OF_EACH.items()},
    "pads": {"name": "minigpt", "layers": 2, "heads": 2, "width": 8, "pad_positions": 3},
    "filling in": {"name": "minigpt", "heads": 2, "width": 8, "attention": "bidirectional"},
}  # fmt: skip
TRAININGS: dict[str, dict[str, Any]] = {
    "plain": {"training": {"steps": 9, "batch_size": 4}},
    "float64": {"training": {"steps": 3, "batch_size": 4, "precision": "float64"}},
    "bfloat16": {"training": {"steps": 3, "batch_size": 4, "precision": "bfloat16"}},
    "many steps": {"training": {"steps": 403, "batch_size": 1, "validations": 7}},
    "early stopping": {
        "training": {"steps": 12, "validations": 6, "batch_size": 4,
                     "early_stopping": {"patience": 1, "min_delta": 100.0}},
    },
    "halving": {
        "training": {"steps": 12, "batch_size": 4},
        "tuning": {"trials": 4, "halving": {"rungs": 2}, "validation_samples": 16},
    },
    "a rate that diverges": {
        "training": {"steps": 40, "batch_size": 4, "gradient_clip": 1e6},
        "tuning": {"learning_rates": [0.01, 10.0], "validation_samples": 16},
    },
}  # fmt: skip


def check_adaptation(folder: Path, base: dict[str, Any], **changes: Any) -> list[Any]:
    """Run a pretraining and an adaptation, and check their events.

    Every event of both has to be as expected.
    """
    pretraining = PretrainSpec.model_validate(a_pretrain_document(**base))
    made = Remembering()
    facts, files = made_base(pretraining, folder, made)
    expected = Expected.of(resolve(pretraining, None))
    assert expected.problems(made.events) == ()
    document = an_adapt_document(base_model=facts.name, **changes)
    spec = resolve(AdaptSpec.model_validate(document), facts)
    seen = Remembering()
    run(spec, files, folder, seen, clock=lambda: 0.0)
    expected = Expected.of(spec)
    assert expected.problems(seen.events) == ()
    for captured in seen.of(AttentionCaptured):
        content = captured.path.read_bytes()
        assert is_map_file(content[:LARGEST_HEADER], len(content), captured.attention.shape)
        assert not is_map_file(content, len(content) - 1, captured.attention.shape)
        assert np.load(captured.path).shape == captured.attention.shape
    for written in seen.of(CheckpointWritten):
        stored = read_header(written.path).tensors
        assert {tensor.name: tensor.shape for tensor in stored} == expected.tensors
        assert {tensor.dtype for tensor in stored} <= {expected.dtype}
    return seen.events


@pytest.mark.long("every combination", but=4)
@pytest.mark.parametrize("method", ANYWHERE)
def test_every_method_reports_what_is_expected(tmp_path: Path, method: str) -> None:
    budget = {"trainable_parameters": 400} if METHODS.get(method).size_knob else {}
    choice: dict[str, Any] = {"name": method}
    if method == "combine":
        choice["parts"] = [{"name": "prefix_tuning", "length": 2}, {"name": "lora", "rank": 1}]
    if method == "exhaustive":  # the budget would have it try a hundred thousand prompts
        choice["length"] = 1
    events = check_adaptation(
        tmp_path, {"capture": CAPTURE}, method=choice, budget=budget, capture=CAPTURE
    )
    assert any(isinstance(event, AttentionCaptured) for event in events)


@pytest.mark.long("every combination", but=3)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["prefix_tuning", "soft_prompt", "bitfit"])
def test_every_family_reports_what_is_expected(tmp_path: Path, family: str, method: str) -> None:
    capture = {} if family == "formal" else {"capture": CAPTURE}
    base = {"family": FAMILIES[family], **capture}
    budget = {"trainable_parameters": 400} if METHODS.get(method).size_knob else {}
    check_adaptation(tmp_path, base, method={"name": method}, budget=budget, **capture)


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS)
def test_every_kind_of_training_reports_what_is_expected(
    tmp_path: Path, training: dict[str, Any]
) -> None:
    check_adaptation(tmp_path, {}, **training)


def test_reparameterised_prefixes_are_stored_folded(tmp_path: Path) -> None:
    method = {"name": "prefix_tuning", "length": 2, "reparameterisation": {"hidden": 3}}
    check_adaptation(tmp_path, {}, method=method, budget={})


def test_theory_checks_report_what_is_expected(tmp_path: Path) -> None:
    spec = resolve_theory(TheorySpec.model_validate({"checks": "all"}), None)
    seen = Remembering()
    run(spec, (), tmp_path, seen, clock=lambda: 0.0)
    assert Expected.of(spec).problems(seen.events) == ()
