"""Found prompts on other bases, as by a plain model and by jobs there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.engine.making import Remembering, made_base
from tests.engine.plain import plain_logits
from tests.engine.running import local, run
from tests.engine.text_models import folder_maker
from tests.texts import CLASSIFICATION, reviews, stored

from adaptlab.engine.items.digits import make_items
from adaptlab.errors import BadCheckpoint, InvalidSpec
from adaptlab.families.minigpt import MiniGPT
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import (
    CheckpointWritten,
    Evaluated,
    Evaluation,
    NotCarried,
    Progress,
    ReplicatesDecided,
)
from adaptlab.runs.inputs import PlacedOtherWeights
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, read_resolved, spec_digest, write_resolved
from adaptlab.specs.spec import AdaptSpec, ModelFolder, PretrainSpec
from adaptlab.tasks.sort_ascending import SortAscending
from adaptlab.weights.model_folder import check_folder

QUERY = {"name": "episodes", "shots": 0, "labels": "fixed", "map_seed": 1}
SORT = {"name": "sort_ascending", "length": 3, "alphabet": 4}
ITEMS = 40


@dataclass(frozen=True)
class Made:
    """A base model, and where its files are."""

    facts: BaseModelFacts
    files: tuple[Path, ...]

    @property
    def placed(self) -> PlacedOtherWeights:
        """The base as another one on which a job is evaluated."""
        return PlacedOtherWeights(name=self.facts.name, bases=tuple(map(local, self.files)))


def made(folder: Path, name: str, width: int, seeds: int, task: dict[str, Any], steps: int) -> Made:
    """Pretrain a base that answers some of the questions, on prompts or none."""
    folder.mkdir()
    document = {
        "name": name,
        "family": {"name": "minigpt", "layers": 2, "heads": 2, "width": width},
        "task": task,
        "training": {
            "steps": steps,
            "batch_size": 16,
            "learning_rate": 0.01,
            "precision": "float64",
        },
        "evaluation": {"tasks": [task, {**task, "shots": 2}] if task == QUERY else [task]},
        "seeds": seeds,
    }
    return Made(*made_base(PretrainSpec.model_validate(document), folder))


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Made]:
    folder = tmp_path_factory.mktemp("bases")
    return (
        made(folder / "own", "own", 16, 2, QUERY, 40),
        made(folder / "other", "other", 12, 3, QUERY, 40),
    )


@pytest.fixture(scope="module")
def sorters(tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Made]:
    folder = tmp_path_factory.mktemp("sorters")
    return (
        made(folder / "own", "own", 16, 2, SORT, 80),
        made(folder / "other", "other", 12, 3, SORT, 80),
    )


def adapting(method: Any, *others: str, **changes: Any) -> AdaptSpec:
    return AdaptSpec.model_validate(
        {
            "base_model": "own",
            "task": QUERY,
            "method": method,
            "training": {"steps": 6, "batch_size": 4, "precision": "float64"},
            "seeds": 4,
            **changes,
            "evaluation": {"samples": ITEMS, "base_models": others},
        }
    )


def ran(spec: ResolvedAdapt, base: Made, folder: Path, *others: Made) -> Remembering:
    seen = Remembering()
    placed = tuple(other.placed for other in others)
    run(spec, base.files, folder, seen, "cpu", others=placed)
    assert Expected.of(spec).problems(seen.events) == ()
    return seen


def carried(seen: Remembering, *, attached: bool = True) -> dict[int, Evaluation]:
    evaluations = [event.evaluation for event in seen.of(Evaluated)]
    return {e.seed: e for e in evaluations if e.base_model and e.attached == attached}


def bits(evaluation: Evaluation) -> list[bool]:
    packed = np.frombuffer(bytes.fromhex(evaluation.outcomes), np.uint8)
    return [bool(bit) for bit in np.unpackbits(packed)[: evaluation.total]]


@pytest.mark.long("long trainings")
@pytest.mark.parametrize(
    "method",
    [
        {"name": "random_prompt", "length": 3},
        {"name": "pez", "length": 3},
        {"name": "autoprompt", "length": 2},
    ],
    ids=lambda method: method["name"],
)
def test_a_prompt_is_scored_as_its_tokens_before_the_question_of_the_other_base(
    method: dict[str, Any], sorters: tuple[Made, Made], tmp_path: Path
):
    own, other = sorters
    trains = method["name"] != "random_prompt"
    tuning = {"tuning": {"trials": 2, "validation_samples": 8}} if trains else {}
    asked = adapting(method, "other", task=SORT, **tuning)
    spec = resolve(asked, own.facts, others=(other.facts,))
    seen = ran(spec, own, tmp_path, other)
    (decided,) = seen.of(ReplicatesDecided)
    found, alone = carried(seen), carried(seen, attached=False)
    family, task = other.facts.family, spec.task
    assert isinstance(family, MiniGPT)
    assert isinstance(task, SortAscending)
    items = make_items(task, "test", torch.tensor([0]), 0, ITEMS)
    prompts = {one.seed: one.prompt for one in decided.replicates if one.selected}
    assert len({prompt.tokens for prompt in prompts.values() if prompt}) > 1
    assert len({one.outcomes for one in (*found.values(), *alone.values())}) > 3
    for seed, replicate in enumerate((0, 1, 0, 1)):  # 4 seeds on 2 replicates, modulo 3
        weights = {name: t.double() for name, t in load_file(other.files[replicate]).items()}
        prompt = prompts[seed]
        assert prompt is not None
        rows = weights["embed.weight"][list(prompt.tokens)]
        for evaluation, before in ((found[seed], rows), (alone[seed], None)):
            given = [
                plain_logits(family, weights, read, prompt=before)[items.span].argmax(-1).tolist()
                for read in items.tokens[0].tolist()
            ]
            right = items.targets[0].tolist()
            assert bits(evaluation) == [a == b for a, b in zip(given, right, strict=True)]


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("method", ["frozen", "in_context"])
def test_what_is_no_prompt_is_scored_as_by_a_job_on_the_other_base(
    method: str, bases: tuple[Made, Made], tmp_path: Path
):
    own, other = bases
    spec = resolve(adapting(method, "other"), own.facts, others=(other.facts,))
    there = resolve(adapting(method, base_replicates=[0, 1, 0, 1]), other.facts)
    seen, direct = ran(spec, own, tmp_path, other), ran(there, other, tmp_path)
    for attached in (True, False):
        expected = {
            e.evaluation.seed: e.evaluation.outcomes
            for e in direct.of(Evaluated)
            if e.evaluation.attached == attached and e.evaluation.task == as_resolved(spec)
        }
        measured = carried(seen, attached=attached)
        assert {seed: one.outcomes for seed, one in measured.items()} == expected
    assert len({one.outcomes for one in carried(seen).values()}) > 1


def as_resolved(spec: ResolvedAdapt) -> dict[str, object]:
    return spec.task.model_dump(mode="json")


def test_a_job_without_other_bases_has_the_digest_that_it_had(bases: tuple[Made, Made]):
    own, other = bases
    plain = resolve(adapting("frozen"), own.facts)
    document = write_resolved(plain).model_dump(mode="json")
    del document["evaluation_bases"]
    earlier = type(write_resolved(plain)).model_validate(document)
    assert spec_digest(earlier) == spec_digest(plain)
    elsewhere = resolve(adapting("frozen", "other"), own.facts, others=(other.facts,))
    assert spec_digest(elsewhere) != spec_digest(plain)
    assert read_resolved(write_resolved(elsewhere)) == elsewhere


def test_a_worker_that_does_not_place_the_other_base_fails_the_run(
    bases: tuple[Made, Made], tmp_path: Path
):
    own, other = bases
    spec = resolve(adapting("frozen", "other"), own.facts, others=(other.facts,))
    with pytest.raises(BadCheckpoint, match="where the base model other is"):
        run(spec, own.files, tmp_path, Remembering(), "cpu")


# Texts


def test_a_prompt_of_bytes_is_carried_as_text_or_reported(tmp_path: Path):
    data = stored(tmp_path, reviews(120))
    seen = Remembering()
    pretraining = PretrainSpec.model_validate(
        {
            "name": "own",
            "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
            "task": CLASSIFICATION,
            "training": {"steps": 2, "batch_size": 4},
            "evaluation": {"samples": 4, "shown": 0},
        }
    )
    own = resolve(pretraining, None, data.datasets)
    run(own, (), tmp_path, seen, "cpu", datasets=(data.path,))
    files = tuple(written.path for written in seen.of(CheckpointWritten))
    folder = folder_maker(tmp_path / "models")("qwen3")
    other = BaseModelFacts(
        name="other",
        digest="1" * 64,
        family=check_folder(folder.path).family,
        task=None,
        replicates=1,
        folder=ModelFolder(folder="models/qwen3", files=folder.files),
    )
    facts = BaseModelFacts(
        name="own", digest="0" * 64, family=own.family, task=own.task, replicates=1
    )
    asked = adapting({"name": "random_prompt", "length": 2}, "other", task=CLASSIFICATION, seeds=16)
    asked = asked.model_copy(
        update={"evaluation": asked.evaluation.model_copy(update={"samples": 12, "shown": 0})}
    )
    spec = resolve(asked, facts, data.datasets, others=(other,))
    seen = Remembering()
    placed = (PlacedOtherWeights(name="other", folder=folder),)
    run(spec, files, tmp_path, seen, "cpu", datasets=(data.path,), others=placed)
    assert Expected.of(spec).problems(seen.events) == ()
    (decided,) = seen.of(ReplicatesDecided)
    is_text = {
        one.seed: all(t < 128 for t in one.prompt.tokens)
        for one in decided.replicates
        if one.prompt
    }
    assert carried(seen).keys() == {seed for seed, text in is_text.items() if text}
    reasons = {told.seed: told.reason for told in seen.of(NotCarried)}
    assert reasons.keys() == {seed for seed, text in is_text.items() if not text}
    assert 0 < len(reasons) < 16
    assert all("whole characters" in why or "has no text" in why for why in reasons.values())


# Refusals

SMALL = MiniGPT(layers=1, heads=2, width=8, vocabulary=137, context=23)
SHORT = SMALL.model_copy(update={"vocabulary": 138, "context": 5})


@pytest.mark.parametrize(
    ("method", "family", "pointer", "code"),
    [
        ("soft_prompt", None, "/evaluation/base_models", "not_carried"),
        ("lora", None, "/evaluation/base_models", "not_carried"),
        ("random_prompt", SMALL, "/evaluation/base_models/0", "vocabulary_too_small"),
        ("in_context", SHORT, "/evaluation/base_models/0", "context_too_small"),
    ],
)
def test_what_cannot_be_carried_is_refused(
    method: str, family: MiniGPT | None, pointer: str, code: str, bases: tuple[Made, Made]
):
    own, other = bases
    facts = other.facts if family is None else other.facts.model_copy(update={"family": family})
    with pytest.raises(InvalidSpec) as refused:
        resolve(adapting(method, "other", budget=2000), own.facts, others=(facts,))
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code) == (pointer, code)
    assert ("other" in problem.detail) or (method in problem.detail)


def test_a_base_that_lacks_tokens_of_the_search_is_refused(bases: tuple[Made, Made]):
    own, other = bases
    assert isinstance(own.facts.family, MiniGPT)
    larger = own.facts.family.model_copy(update={"vocabulary": 150})
    rich = own.facts.model_copy(update={"family": larger})
    spec = adapting({"name": "pez", "length": 2}, "other")
    with pytest.raises(InvalidSpec, match="It has 138 tokens, and pez chooses among the 150") as no:
        resolve(spec, rich, others=(other.facts,))
    assert [problem.pointer for problem in no.value.problems] == ["/evaluation/base_models/0"]


def test_the_own_base_and_a_base_twice_are_refused(bases: tuple[Made, Made]):
    own, other = bases
    for others in ((own.facts,), (other.facts, other.facts)):
        with pytest.raises(InvalidSpec) as refused:
            resolve(adapting("frozen", "a", "b"), own.facts, others=others)
        (problem,) = refused.value.problems
        assert problem.code == "base_model_twice"
        assert problem.pointer == f"/evaluation/base_models/{len(others) - 1}"


def test_phases_after_training_are_told_from_their_start_to_their_end(
    sorters: tuple[Made, Made], tmp_path: Path
):
    own, other = sorters
    method = {"name": "random_prompt", "length": 3}
    asked = adapting(method, "other", task=SORT, capture={"attention": {"samples": 2}})
    shown = asked.evaluation.model_copy(update={"shown": 4})
    spec = resolve(asked.model_copy(update={"evaluation": shown}), own.facts, others=(other.facts,))
    told = ran(spec, own, tmp_path, other).of(Progress)
    phases = list(dict.fromkeys(one.phase for one in told))
    assert phases == ["evaluating", "answering", "recording_attention", "transferring"]
    for phase in phases:
        (total,) = {one.total for one in told if one.phase == phase}
        steps = [one.step for one in told if one.phase == phase]
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (0, total)
