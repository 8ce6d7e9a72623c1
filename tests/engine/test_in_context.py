"""Demonstrations: which ones, where they are, and how models answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.judging import outcomes
from tests.engine.making import Remembering, base_tensors, episodes_base
from tests.engine.running import run
from tests.texts import (
    CLASSIFICATION,
    COMPLETION,
    Stored,
    a_byte_pair_tokeniser,
    joined,
    reviews,
    stored,
    without,
)

from adaptlab.engine.items.digits import make_items
from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.models.context import Context
from adaptlab.engine.models.demonstrating import demonstrations
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.errors import InvalidSpec
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.llama import Llama
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.family import Family
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import Evaluated, ReplicatesDecided
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.cost import work
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec
from adaptlab.text.tokeniser import Tokeniser, read_tokeniser

QUERY = {"name": "episodes", "shots": 0, "labels": "fixed", "map_seed": 1}
SAMPLES = 24
RECORDS = reviews(300)
CALIBRATED = without(CLASSIFICATION, calibration="empty_input")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), RECORDS)


def a_family(context: int = 23, vocabulary: int = 138, **changes: Any) -> MiniGPT:
    return MiniGPT(layers=2, heads=2, width=16, vocabulary=vocabulary, context=context, **changes)


def resolved(
    task: Mapping[str, Any],
    data: Stored | None = None,
    family: Family | None = None,
    **changes: Any,
) -> ResolvedAdapt:
    """Return an adaptation of one base by demonstrations."""
    facts = BaseModelFacts(
        name="base", digest="0" * 64, family=family or a_family(), task=None, replicates=1
    )
    spec = {
        "base_model": "base",
        "task": dict(task),
        "method": {"name": "in_context"},
        "training": {"precision": "float64", "steps": 1},
        "seeds": 2,
        **changes,
    }
    return resolve(AdaptSpec.model_validate(spec), facts, data.datasets if data else {})


def planned(spec: ResolvedAdapt, texts: Mapping[str, Any] | None = None) -> tuple[Plan, Model]:
    """Return the plan of a job, and its model with random weights."""
    plan = make_plan(spec, "cpu", {}, texts or {})
    return plan, Model(plan, base_tensors(plan), {}, demonstrations(plan))


def on_texts(
    task: Mapping[str, Any], data: Stored, tokeniser: Tokeniser | None = None, **changes: Any
) -> tuple[Plan, Model]:
    vocabulary = 257 if tokeniser is None else tokeniser.vocabulary
    family = a_family(context=300, vocabulary=vocabulary)
    return planned(resolved(task, data, family, **changes), data.source(tokeniser))


def written(model: Model, row: int) -> list[int]:
    """Return the demonstrations of a replicate."""
    assert isinstance(model.context, Context)
    tokens: list[int] = model.context.tokens[row, : int(model.context.lengths[row])].tolist()
    return tokens


# What is demonstrated


def test_demonstrations_of_episodes_are_training_queries_with_labels():
    plan, model = planned(resolved(QUERY))
    items = make_items(plan.task, "train", plan.seeds, 0, 64)  # pyright: ignore[reportArgumentType]
    for row in range(2):
        asked = zip(items.tokens[row].tolist(), items.targets[row].tolist(), strict=True)
        known = {(*tokens, *answer, 137) for tokens, answer in asked}
        shown = [tuple(part.tolist()) for part in torch.tensor(written(model, row)).split(5)]
        assert len(set(shown)) == 4
        assert set(shown) <= known
        labels: list[int] = [part[3] for part in shown]
        assert sorted(labels.count(label) for label in set(labels)) == [2, 2]
    assert written(model, 0) != written(model, 1)


@pytest.mark.parametrize("task", [CLASSIFICATION, COMPLETION], ids=["words", "completion"])
def test_demonstrations_of_texts_are_training_records_as_the_task_writes_them(
    task: Mapping[str, Any], data: Stored
):
    method = {"name": "in_context", "demonstrations": 3, "separator": " // "}
    plan, model = on_texts(task, data, method=method)
    texts: Any = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    trained = [RECORDS[number] for number in texts.of_split["train"].tolist()]
    words = {"neg": "-", "pos": "+"}
    known = {
        f"{r['text']}. It is{words[r['label']]}"
        if task is CLASSIFICATION
        else f"{r['text']}. Its thing:{r['thing']}"
        for r in trained
    }
    for row in range(2):
        *shown, rest = joined(written(model, row)).split(" // ")
        assert rest == ""
        assert len(set(shown)) == 3
        assert set(shown) <= known
    assert plan.method is not None
    assert (
        len(written(model, 0))
        <= plan.method.extra_context_tokens()
        == 3 * (task["tokens"]["longest"] + 4)
    )


def test_balanced_takes_each_label_equally_often_and_random_does_not(data: Stored):
    def labels(choice: str) -> list[str]:
        method = {"name": "in_context", "demonstrations": 6, "choice": choice}
        _, model = on_texts(CLASSIFICATION, data, method=method, seeds=8)
        return [
            "".join(part[-1] for part in joined(written(model, row)).split("\n\n")[:-1])
            for row in range(8)
        ]

    balanced, random = labels("balanced"), labels("random")
    assert all(row.count("+") == row.count("-") == 3 for row in balanced)
    assert len(set(balanced)) > 1, "their order differs between seeds"
    assert not all(row.count("+") == 3 for row in random)  # two thirds of all records


def test_records_that_are_too_long_are_not_drawn(data: Stored):
    method = {"name": "in_context", "demonstrations": 4, "longest": 26}
    _, model = on_texts(CLASSIFICATION, data, method=method)
    shown = joined(written(model, 0)).split("\n\n")[:-1]
    assert max(map(len, shown)) + 2 <= 26
    assert max(len(record["text"]) + 8 + 2 for record in RECORDS) > 26
    short = {"name": "in_context", "demonstrations": 4, "longest": 14}
    with pytest.raises(InvalidSpec, match="training items have at most 14 tokens"):
        on_texts(CLASSIFICATION, data, method=short)


# Where they are


@pytest.mark.parametrize(
    "family",
    [
        a_family(),
        GPT2(layers=2, heads=2, width=16).resolved(138, 23),
        Llama(layers=2, heads=2, width=16).resolved(138, 23),
    ],
    ids=lambda family: family.name,
)
def test_the_model_reads_demonstrations_and_question_as_one_text(family: Family):
    plan, model = planned(resolved(QUERY, family=family))
    items = make_items(plan.task, "test", plan.seeds[:1], 0, 8)  # pyright: ignore[reportArgumentType]
    answers = model.answers(items)
    for row in range(2):
        before = torch.tensor(written(model, row)).expand(1, 8, -1)
        whole = torch.cat([before, items.tokens], -1)
        plain = model.base_logits(whole, slice(whole.shape[-1] - 1, None))
        torch.testing.assert_close(answers[row], plain[0], rtol=1e-9, atol=1e-12)
    alone = model.answers(items, attached=False)
    assert not torch.allclose(answers[0], alone[0])


@pytest.mark.parametrize("task", [CLASSIFICATION, CALIBRATED], ids=["plain", "calibrated"])
def test_words_are_scored_after_the_demonstrations(task: Mapping[str, Any], data: Stored):
    plan, model = on_texts(task, data, seeds=3)
    texts: Any = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    right = outcomes(model, plan.task, "test", SAMPLES, 3)
    signs = torch.tensor([ord("-"), ord("+")])

    def scores(row: int, prompt: str) -> torch.Tensor:
        tokens = torch.tensor([[[*written(model, row), *prompt.encode()]]])
        return model.base_logits(tokens, slice(tokens.shape[-1] - 1, None))[0, 0, 0, signs]

    lengths = {len(written(model, row)) for row in range(3)}
    assert len(lengths) > 1, "shorter demonstrations are padded behind the items"
    for place in range(SAMPLES):
        record = RECORDS[int(texts.of_split["test"][place])]
        for row in range(3):
            score = scores(row, f"{record['text']}. It is")
            if task is CALIBRATED:
                score = score - scores(row, ". It is")
            chosen = ("neg", "pos")[int(score.argmax())]
            assert bool(right[row, place]) == (chosen == record["label"])


def test_a_text_is_begun_once(data: Stored):
    tokeniser = read_tokeniser(a_byte_pair_tokeniser(record["text"] for record in RECORDS), 1)
    plan, model = on_texts(CLASSIFICATION, data, tokeniser)
    texts: Any = texts_of(plan.task)  # pyright: ignore[reportArgumentType]
    records = texts.of_split["test"][:5].unsqueeze(0)
    items = texts.items(records)
    assert isinstance(model.context, Context)
    assert items.tokens[0, :, 0].tolist() == [0] * 5
    read = model.context.before(items)
    for row in range(2):
        for place in range(5):
            whole = [*written(model, row), *items.tokens[0, place, 1:].tolist()]
            assert read.tokens[row, place, : len(whole)].tolist() == whole
            assert whole.count(0) - items.tokens[0, place, 1:].tolist().count(0) == 1
    assert len(tokeniser.text(tuple(written(model, 0))).split("\n\n")) == 5


# Jobs


def test_each_replicate_of_a_stack_answers_as_it_would_alone(tmp_path: Path):
    facts, files = episodes_base(tmp_path, layers=2)

    def scored(**changes: Any) -> tuple[dict[tuple[int, str, bool], str], Remembering]:
        document = {
            "base_model": "base",
            "task": QUERY,
            "method": "in_context",
            "budget": 100,
            "training": {"steps": 5},
            "evaluation": {"samples": 64},
            **changes,
        }
        spec = resolve(AdaptSpec.model_validate(document), facts)
        seen = Remembering()
        run(spec, files, tmp_path, seen)
        assert Expected.of(spec).problems(seen.events) == ()
        evaluations = [event.evaluation for event in seen.of(Evaluated)]
        return {
            (one.seed, str(one.task["shots"]), one.attached): one.outcomes for one in evaluations
        }, seen

    together, seen = scored(seeds=4, tuning={"trials": 2})
    assert len(set(together.values())) > 2
    for seed in range(4):
        alone, _ = scored(seeds=[seed], base_replicates=[seed % 2])
        for key, outcome in alone.items():
            assert together[key] == outcome
        assert together[seed, "2", True] == together[seed, "2", False], "other tasks are as before"
    (decided,) = seen.of(ReplicatesDecided)
    prompts = [one.prompt for one in decided.replicates if one.selected]
    assert [len(prompt.tokens) for prompt in prompts if prompt] == [20] * 4
    assert prompts[0] is not None
    assert prompts[0].words[2:5:2] == ("→", "↵")


def test_nothing_is_trained_and_the_context_is_the_cost():
    spec = resolved(QUERY, method={"name": "in_context", "demonstrations": 3}, budget=500)
    budget = spec.budget
    assert (budget.trainable_parameters, budget.gap, budget.tensors) == (0, 500, {})
    assert budget.extra_context_tokens == 15
    assert budget.stored_bits == 107  # 15 times the logarithm of 138 is 106.6


def test_the_estimate_counts_the_demonstrations_as_content():
    plain, shown = (work(resolved(QUERY, method=name)) for name in ("frozen", "in_context"))
    # Items have 3 tokens and 23; the parts that only answer rows need are the same.
    # Two seeds share the pass of their base, but not one with demonstrations.
    ratio = shown.evaluation.flops / plain.evaluation.flops
    assert 23 / 3 / 2 < ratio < 2 * 23 / 3
    assert shown.training.flops == 0


# Refusals


FIVE = {"name": "in_context", "demonstrations": 5}
REFUSED: dict[str, tuple[dict[str, Any], str, tuple[object, ...]]] = {
    "too many": ({"method": FIVE}, "context_too_small", (4,)),
    "no room": ({"family": a_family(context=7)}, "context_too_small", ()),
    "digits": ({"task": {"name": "copy"}, "family": a_family(99)}, "nothing_to_demonstrate", ()),
    "episodes": ({"task": {"name": "episodes"}}, "nothing_to_demonstrate", ()),
    "both ways": ({"family": a_family(attention="bidirectional")}, "no_continuation", ()),
    "combined": (
        {"method": {"name": "combine", "parts": ["lora", "in_context"]}, "budget": 500},
        "nothing_to_combine",
        (),
    ),
    "maps": ({"capture": {"attention": {"samples": 1}}}, "question_moves", ()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_demonstrated_is_refused(name: str):
    changes, code, nearest = REFUSED[name]
    with pytest.raises(InvalidSpec) as refused:
        resolved(**{"task": QUERY, **changes})
    (problem,) = refused.value.problems
    assert (problem.code, problem.nearest) == (code, nearest)


def test_texts_without_room_or_records_are_refused(data: Stored):
    family = a_family(context=200, vocabulary=257)
    with pytest.raises(InvalidSpec) as refused:
        resolved(CLASSIFICATION, data, family)
    assert refused.value.problems[0].nearest == (3,)  # of 42 tokens each, and an item of 39
    few = stored(data.path.parent, RECORDS[:20], "few")
    task = without(CLASSIFICATION, dataset="few")
    method = {"name": "in_context", "demonstrations": 21}
    with pytest.raises(InvalidSpec) as refused:
        resolved(task, few, a_family(context=4000, vocabulary=257), method=method)
    assert refused.value.problems[0].code == "too_few_items"
    head = without(CLASSIFICATION, label={"field": "label"}, score="head", tokens={"longest": 40})
    with pytest.raises(InvalidSpec) as refused:
        resolved(head, data, family)
    assert refused.value.problems[0].code == "nothing_to_demonstrate"
