"""Demonstrations nearest to each question, against plain look-ups."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.judging import outcomes
from tests.engine.making import Remembering, base_tensors, episodes_base
from tests.engine.running import run
from tests.texts import CLASSIFICATION, COMPLETION, Stored, reviews, stored, without
from torch import Tensor

from adaptlab.engine.items.task_items import make_items
from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.models.demonstrating import demonstrations
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.nearest import NearestContext
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.errors import InvalidSpec
from adaptlab.families.minigpt import MiniGPT
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import Evaluated, ReplicatesDecided
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec

QUERY = {"name": "episodes", "shots": 0, "labels": "fixed", "map_seed": 1}
NEAREST = {"name": "in_context", "demonstrations": 3, "choice": "nearest"}
RECORDS = reviews(90)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), RECORDS)


def resolved(
    task: Mapping[str, Any], vocabulary: int, datasets: Any = None, **changes: Any
) -> ResolvedAdapt:
    family = MiniGPT(layers=2, heads=2, width=16, vocabulary=vocabulary, context=300)
    facts = BaseModelFacts(name="base", digest="0" * 64, family=family, task=None, replicates=2)
    spec = {
        "base_model": "base",
        "task": dict(task),
        "method": NEAREST,
        "training": {"precision": "float64", "steps": 1},
        "seeds": 2,
        **changes,
    }
    return resolve(AdaptSpec.model_validate(spec), facts, datasets or {})


def planned(task: Mapping[str, Any], data: Stored | None = None) -> tuple[Plan, Model]:
    """Return a plan of two seeds with a base each, and its model."""
    vocabulary, datasets = (138, None) if data is None else (257, data.datasets)
    texts = {} if data is None else data.source(None)
    plan = make_plan(resolved(task, vocabulary, datasets), "cpu", {}, texts)
    return plan, Model(plan, base_tensors(plan, 2), {}, demonstrations(plan))


def plain_state(model: Model, row: int, tokens: Sequence[int]) -> Tensor:
    """Return the base's state after tokens, found from its logits.

    The head has more rows than columns, so its logits determine what it reads.
    """
    base = {name: tensor[[row]] for name, tensor in model.base.items()}
    alone = Model(model.plan, base, {})
    logits = alone.base_logits(torch.tensor([[list(tokens)]]), slice(len(tokens) - 1, None))
    return torch.linalg.pinv(base["unembed.weight"][0]) @ logits[0, 0, 0]


class PlainPool:
    """Demonstrations by question, with the base's states after the questions."""

    def __init__(self, model: Model, row: int, pool: Mapping[tuple[int, ...], list[int]]) -> None:
        self.model, self.row, self.pool = model, row, pool
        self.states = {asked: plain_state(model, row, asked) for asked in pool}

    def before(self, question: Sequence[int], order: Sequence[int]) -> list[int]:
        """Return the tokens of the three nearest, of which `order` has the ranks."""
        asked = plain_state(self.model, self.row, question)

        def similarity(other: tuple[int, ...]) -> float:
            return float(torch.cosine_similarity(asked, self.states[other], dim=0))

        nearest = sorted(self.pool, key=similarity, reverse=True)
        return [token for rank in order for token in self.pool[nearest[rank]]]


def read_by(model: Model, items: Any) -> Any:
    assert isinstance(model.context, NearestContext)
    return model.context.before(items, model.question_states)


def test_episodes_have_the_nearest_training_queries_in_the_order_of_the_seed(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("adaptlab.engine.models.demonstrating.POOL", 48)
    plan, model = planned(QUERY)
    assert isinstance(model.context, NearestContext)
    trained = make_items(plan.task, "train", plan.seeds, 0, 48)
    items = make_items(plan.task, "test", plan.seeds[:1], 0, 4)
    read = read_by(model, items)
    chosen: set[tuple[int, ...]] = set()
    for row in range(2):
        shown = zip(trained.tokens[row].tolist(), trained.targets[row].tolist(), strict=True)
        pool = {tuple(asked): [*asked, *answer, 137] for asked, answer in shown}
        plain = PlainPool(model, row, pool)
        order: list[int] = model.context.order[row].tolist()
        for place in range(4):
            question: list[int] = items.tokens[0, place].tolist()
            before = plain.before(question, order)
            assert read.tokens[row, place].tolist() == [*before, *question]
            chosen.add(tuple(before))
    assert len(chosen) == 8, "every question has its own"


@pytest.mark.parametrize("task", [CLASSIFICATION, COMPLETION], ids=["words", "completion"])
def test_texts_have_the_nearest_training_records(task: Mapping[str, Any], data: Stored):
    plan, model = planned(task, data)
    assert isinstance(model.context, NearestContext)
    texts: Any = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    items = texts.items(texts.of_split["test"][:2].unsqueeze(0))
    read = read_by(model, items)
    answers = model.answers(items)

    def asked(record: Mapping[str, Any]) -> tuple[int, ...]:
        end = ". It is" if task is CLASSIFICATION else ". Its thing:"
        return tuple(f"{record['text']}{end}".encode())

    def answer(record: Mapping[str, Any]) -> bytes:
        words = {"neg": "-", "pos": "+"}
        word = words[record["label"]] if task is CLASSIFICATION else record["thing"]
        return word.encode()

    known = [RECORDS[number] for number in texts.of_split["train"].tolist()]
    pool = {asked(r): [*asked(r), *answer(r), 10, 10] for r in known}
    for row in range(2):
        order: list[int] = model.context.order[row].tolist()
        plain = PlainPool(model, row, pool)
        base = {name: tensor[[row]] for name, tensor in model.base.items()}
        for place in range(2):
            record = RECORDS[int(texts.of_split["test"][place])]
            whole = [*plain.before(asked(record), order), *asked(record)]
            assert read.tokens[row, place, : len(whole)].tolist() == whole
            tokens = torch.tensor([[whole]])
            last = Model(plan, base, {}).base_logits(tokens, slice(len(whole) - 1, None))
            torch.testing.assert_close(answers[row, place, 0], last[0, 0, 0])
    right = outcomes(model, plan.task, "test", 8, 2)
    assert right.shape == (2, 8)


def test_a_job_reports_no_demonstrations_of_a_seed(tmp_path: Path):
    facts, files = episodes_base(tmp_path)

    def scored(**changes: Any) -> dict[int, str]:
        job = {"base_model": "base", "task": QUERY, "method": NEAREST, "training": {"steps": 1}}
        samples = {"evaluation": {"samples": 64}}
        spec = resolve(AdaptSpec.model_validate({**job, **samples, **changes}), facts)
        seen = Remembering()
        run(spec, files, tmp_path, seen)
        assert Expected.of(spec).problems(seen.events) == ()
        (decided,) = seen.of(ReplicatesDecided)
        assert [one.prompt for one in decided.replicates] == [None] * len(spec.seeds)
        return {
            one.evaluation.seed: one.evaluation.outcomes
            for one in seen.of(Evaluated)
            if one.evaluation.attached and one.evaluation.task["shots"] == 0
        }

    together = scored(seeds=2)
    assert together[1] == scored(seeds=[1], base_replicates=[1])[1]


def test_what_has_no_nearest_demonstrations_is_refused(data: Stored):
    calibrated = without(CLASSIFICATION, calibration="empty_input")
    with pytest.raises(InvalidSpec) as refused:
        resolved(calibrated, 257, data.datasets)
    assert refused.value.problems[0].code == "nearest_to_nothing"
    with pytest.raises(InvalidSpec) as refused:
        resolved(QUERY, 138, method={**NEAREST, "name": "anchor_reweighting"})
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.allowed) == ("/method/choice", ("balanced", "random"))
