"""Forgetting: the base's own tasks, attached and detached."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.engine.making import Remembering, made_base
from tests.engine.running import run

from adaptlab.engine.models.model import Model
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.task import TASKS
from adaptlab.runs.events import Evaluated, Evaluation
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, readable, scored_tasks, write_resolved
from adaptlab.specs.spec import AdaptSpec, PretrainSpec, ResolvedSpec

ASCENDING = {"name": "sort_ascending", "length": 3, "alphabet": 4}
DESCENDING = {**ASCENDING, "name": "sort_descending"}
SAMPLES = 50
TRAINING = {"steps": 150, "batch_size": 32, "learning_rate": 1e-2}
ATTENTION = ("causal", "bidirectional")

Bases = tuple[BaseModelFacts, tuple[Path, ...], list[Evaluation]]


@pytest.fixture(scope="module")
def trained_bases(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Bases]:
    """Return two replicates of a base that sorts upwards, and its scores.

    The scores are the base's own. Both are given by kind of attention.
    """
    return {kind: pretrained(kind, tmp_path_factory.mktemp(kind)) for kind in ATTENTION}


def pretrained(attention: str, folder: Path) -> Bases:
    spec = PretrainSpec.model_validate(
        {
            "name": "base",
            "family": {"name": "minigpt", "width": 16, "heads": 2, "attention": attention},
            "task": ASCENDING,
            "training": TRAINING,
            "seeds": 2,
            "evaluation": {"tasks": [ASCENDING, DESCENDING], "samples": SAMPLES},
        }
    )
    observer = Remembering()
    facts, files = made_base(spec, folder, observer)
    return facts, files, scores(observer)


def scores(observer: Remembering) -> list[Evaluation]:
    return [evaluated.evaluation for evaluated in observer.of(Evaluated)]


def adapted(bases: Bases, folder: Path, method: object, **changes: object) -> list[Evaluation]:
    facts, files, _ = bases
    observer = Remembering()
    run(resolved_adaptation(facts, method, **changes), files, folder, observer, "cpu")
    return scores(observer)


def resolved_adaptation(facts: BaseModelFacts, method: object, **changes: object) -> ResolvedAdapt:
    document: dict[str, object] = {
        "base_model": "base",
        "task": DESCENDING,
        "method": method,
        "training": TRAINING,
        "evaluation": {"samples": SAMPLES},
        **changes,
    }
    return resolve(AdaptSpec.model_validate(document), facts)


def by_place(evaluations: list[Evaluation], *, attached: bool) -> dict[tuple[int, str], str]:
    """The packed outcomes by replicate of the base and by task."""
    return {
        (e.seed % 2, str(e.task["name"])): e.outcomes for e in evaluations if e.attached is attached
    }


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("attention", ATTENTION)
def test_detached_scores_are_those_of_the_base_itself(
    trained_bases: Mapping[str, Bases], attention: str, tmp_path: Path
):
    bases = trained_bases[attention]
    steps = {"steps": 150, "batch_size": 32}
    rates = {"learning_rates": [1e-2, 3e-3]}
    found = adapted(bases, tmp_path, "full_finetuning", training=steps, tuning=rates)
    before = by_place(bases[2], attached=True)
    detached, attached = by_place(found, attached=False), by_place(found, attached=True)
    assert detached == before
    assert {name for _, name in before} == {"sort_ascending", "sort_descending"}
    assert attached.keys() == detached.keys()
    # Full fine-tuning to the reverse order: what it learned and what it forgot are both plain.
    for replicate in (0, 1):
        learned = correct(attached[replicate, "sort_descending"])
        assert learned > correct(before[replicate, "sort_descending"]) + SAMPLES / 4
        kept = correct(attached[replicate, "sort_ascending"])
        assert kept < correct(before[replicate, "sort_ascending"]) - SAMPLES / 4


def correct(packed: str) -> int:
    return int(np.unpackbits(np.frombuffer(bytes.fromhex(packed), np.uint8)).sum())


def test_seeds_that_start_from_one_base_share_its_detached_scores(
    trained_bases: Mapping[str, Bases], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    computed: list[int] = []
    original = Model.base_logits

    def counting(model: Model, tokens: torch.Tensor, rows: slice, **named: Any) -> torch.Tensor:
        logits = original(model, tokens, rows, **named)
        computed.append(len(logits))
        return logits

    monkeypatch.setattr(Model, "base_logits", counting)
    bases = trained_bases["causal"]
    short = {**TRAINING, "steps": 2}
    found = adapted(bases, tmp_path, "soft_prompt", budget=32, seeds=5, training=short)
    assert set(computed) == {2}, "two bases are computed, though five seeds start from them"
    of_base = by_place(bases[2], attached=True)
    detached = [e for e in found if not e.attached]
    assert sorted(e.seed for e in detached) == sorted(2 * list(range(5)))
    for one in detached:
        assert one.outcomes == of_base[one.seed % 2, str(one.task["name"])]


@pytest.mark.parametrize(
    "tasks",
    [(), (DESCENDING, ASCENDING), (ASCENDING,), (DESCENDING, DESCENDING)],
    ids=["none named", "both", "the base's own", "one named twice"],
)
def test_every_task_is_scored_once_attached_and_once_detached(
    trained_bases: Mapping[str, Bases], tasks: tuple[dict[str, object], ...], tmp_path: Path
):
    short = {**TRAINING, "steps": 1}
    evaluation = {"tasks": list(tasks), "samples": 10}
    bases = trained_bases["causal"]
    found = adapted(bases, tmp_path, "lora", budget=200, training=short, evaluation=evaluation)
    places = [(e.replicate, str(e.task["name"]), e.attached) for e in found]
    names = {str(task["name"]) for task in tasks or (DESCENDING,)} | {"sort_ascending"}
    assert sorted(places) == sorted(
        (replicate, name, attached)
        for replicate in (0, 1)
        for name in names
        for attached in (False, True)
    )


def test_a_base_has_nothing_to_detach(trained_bases: Mapping[str, Bases]):
    assert all(e.attached for e in trained_bases["causal"][2])


def test_without_knowledge_of_the_base_only_the_evaluation_tasks_are_scored(
    trained_bases: Mapping[str, Bases],
):
    facts = trained_bases["causal"][0].model_copy(update={"task": None})
    resolved = resolved_adaptation(facts, "lora", budget=200)
    assert resolved.base_tasks == ()
    assert [task.name for task in scored_tasks(resolved)] == ["sort_descending"]


def test_a_spec_that_was_stored_before_forgetting_was_measured_still_loads(
    trained_bases: Mapping[str, Bases],
):
    resolved = resolved_adaptation(trained_bases["causal"][0], "lora", budget=200)
    document = write_resolved(resolved).model_dump()
    assert [task["name"] for task in document.pop("base_tasks")] == ["sort_ascending"]
    assert readable(ResolvedSpec.model_validate(document)).base_tasks == ()


def test_a_base_of_a_mixture_is_scored_on_every_part(trained_bases: Mapping[str, Bases]):
    added = {**ASCENDING, "name": "add", "k": 1}
    mixture: dict[str, object] = {"name": "mixture", "tasks": [ASCENDING, DESCENDING, added]}
    facts = trained_bases["causal"][0].model_copy(update={"task": by_name(TASKS, mixture)})
    resolved = resolved_adaptation(facts, "lora", budget=200)
    assert [task.name for task in resolved.base_tasks] == [
        "sort_ascending",
        "sort_descending",
        "add",
    ]
    # The job's own task is one of them and is scored once.
    assert [task.name for task in scored_tasks(resolved)] == [
        "sort_descending",
        "sort_ascending",
        "add",
    ]
