"""Theory checks as a run, on real models: reports at once, and a stop."""

from pathlib import Path

import pytest
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.making import a_pretrain_document

from adaptlab.errors import TrainingStopped
from adaptlab.plugins.theory_check import THEORY_CHECKS
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import CheckpointWritten, Finished, TheoryChecked
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolve_theory import resolve_theory
from adaptlab.specs.spec import PretrainSpec, TheorySpec
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.theorems import theorems

TASK = {"name": "copy", "length": 4, "alphabet": 5}


def test_every_declared_check_can_be_measured():
    assert MEASURES.names() == THEORY_CHECKS.names()


def test_the_theorems_are_reported_one_by_one(tmp_path: Path):
    spec = resolve_theory(TheorySpec.model_validate({"checks": ["theorems"]}), None)
    seen = Remembering()
    run(spec, (), tmp_path, seen, clock=lambda: 0.0)
    told = seen.of(TheoryChecked)
    assert [one.place for one in told] == list(range(len(told)))
    assert tuple(one.check for one in told) == theorems("small").checks
    (sequences,) = [one.check for one in told if one.check.name == "theorem-1-unconditional"]
    assert (sequences.measured, sequences.verdict) == (0, "holds")
    assert sequences.details["completions"] == 4**4 + 3**6
    assert len(seen.of(Finished)) == 1


def test_a_stop_is_obeyed_after_the_report_that_is_being_measured(tmp_path: Path):
    spec = resolve_theory(TheorySpec.model_validate({"checks": ["theorems"]}), None)
    seen = Remembering(stop_after=0)
    with pytest.raises(TrainingStopped, match="between two theory checks"):
        run(spec, (), tmp_path, seen)
    assert len(seen.of(TheoryChecked)) == 1


def test_nothing_is_claimed_about_labels_of_a_base_that_has_learned_nothing(tmp_path: Path):
    task = {"name": "episodes", "kinds": 3}
    document = a_pretrain_document(
        family={"name": "llama", "layers": 2, "heads": 2, "width": 16}, task=task,
        training={"steps": 2, "batch_size": 4}, seeds=1,
    )  # fmt: skip
    pretraining = resolve(PretrainSpec.model_validate(document), None)
    made = Remembering()
    run(pretraining, (), tmp_path, made)
    files = tuple(written.path for written in made.of(CheckpointWritten))
    base = BaseModelFacts(
        name="base", digest="0" * 64, family=pretraining.family, task=pretraining.task, replicates=1
    )
    checks = [{"name": "isolation", "task": task, "samples": 200}]
    spec = resolve_theory(TheorySpec.model_validate({"checks": checks, "base_model": "base"}), base)
    seen = Remembering()
    run(spec, files, tmp_path, seen)
    assert Expected.of(spec).problems(seen.events) == ()
    told = [one.check for one in seen.of(TheoryChecked)]
    assert [check.name for check in told] == ["isolation.above-chance", "isolation.permuted"]
    assert [check.verdict for check in told] == ["fails", "fails"]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_trained_base_is_measured(tmp_path: Path, family: str):
    document = a_pretrain_document(
        family={"name": family, "layers": 2, "heads": 2, "width": 16}, task=TASK,
        training={"steps": 20, "batch_size": 16}, seeds=1,
    )  # fmt: skip
    pretraining = resolve(PretrainSpec.model_validate(document), None)
    made = Remembering()
    run(pretraining, (), tmp_path, made)
    files = tuple(written.path for written in made.of(CheckpointWritten))
    base = BaseModelFacts(
        name="base", digest="0" * 64, family=pretraining.family, task=pretraining.task, replicates=1
    )
    capacity = {"name": "capacity", "length": 4, "soft_tokens": 64, "directed_tokens": 8}
    checks = [{"name": "identities", "lengths": [2]}, {**capacity, "steps": 5}]
    spec = resolve_theory(TheorySpec.model_validate({"checks": checks, "base_model": "base"}), base)
    seen = Remembering()
    run(spec, files, tmp_path, seen)
    told = {one.check.name: one.check for one in seen.of(TheoryChecked)}
    capacity_found = told.pop("capacity-of-a-soft-first-token")
    assert capacity_found.details["random_tried"] == 64
    assert any(name.endswith("random-2") for name in told)
    assert {check.verdict for check in told.values()} == {"holds"}, told
