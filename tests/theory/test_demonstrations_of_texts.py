"""Checks on label words of texts, against plain models of each item."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.making import Remembering
from tests.engine.plain import plain_logits
from tests.engine.running import run
from tests.making import a_pretrain_document
from tests.texts import (
    CLASSIFICATION,
    Stored,
    joined,
    reviews,
    stored,
    without,
)
from torch import Tensor
from torch.nn import functional

from adaptlab.errors import InvalidSpec
from adaptlab.families.minigpt import MiniGPT
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import CheckpointWritten, TheoryChecked
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolve_theory import resolve_theory
from adaptlab.specs.resolved import datasets_of
from adaptlab.specs.spec import PretrainSpec, TheorySpec
from adaptlab.text.tokeniser import BYTES_VOCABULARY
from adaptlab.theory.asking import Asked, asked
from adaptlab.theory.compression import kept_places, logits, random_words, text_logits
from adaptlab.theory.demonstrated import views
from adaptlab.theory.isolation import scores
from adaptlab.theory.label_attention import label_auc
from adaptlab.theory.observation import FrozenBase, random_base
from adaptlab.theory.saliency import flows, saliencies
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.isolation import Isolation

LAYERS, HEADS, ITEMS, CONTEXT = 2, 2, 2, 256
SHOWN = {"demonstrations": 4, "longest": 40, "separator": "\n"}
PLUS, MINUS = ord("+"), ord("-")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("texts"), reviews(400))


@pytest.fixture(scope="module")
def check(dataset: Stored) -> Isolation:
    return a_check(dataset)


@pytest.fixture(scope="module")
def short(dataset: Stored) -> Isolation:
    """With two demonstrations, since plain models are slow."""
    return a_check(dataset, in_context={**SHOWN, "demonstrations": 2, "longest": 32})


def a_check(dataset: Stored, **changes: Any) -> Isolation:
    document = {"task": dict(CLASSIFICATION), "in_context": SHOWN, "samples": 100, **changes}
    return Isolation.model_validate(document).settled(dataset.datasets).with_texts(dataset.source())


def first(shown: Asked) -> Asked:
    """The first items."""
    places = {kind: at[:ITEMS] for kind, at in shown.places.items()}
    members = {**vars(shown), "places": places}
    members |= {name: getattr(shown, name)[:ITEMS] for name in ("tokens", "ends", "right")}
    return Asked(**members)


def a_base(seed: int = 3) -> FrozenBase:
    family = MiniGPT(layers=LAYERS, heads=HEADS, width=8)
    return random_base(family.resolved(BYTES_VOCABULARY, CONTEXT), seed)


def plain(base: FrozenBase, tokens: list[int], **changes: Any) -> Tensor:
    """The logits of the last token."""
    assert isinstance(base.family, MiniGPT)
    weights = {name: tensor[0] for name, tensor in base.weights.items()}
    return plain_logits(base.family, weights, tokens, **changes)[-1]


def read(shown: Asked, item: int) -> list[int]:
    """The tokens of an item without padding."""
    return shown.tokens[item, : int(shown.ends[item]) + 1].tolist()


def test_demonstrations_and_question_are_a_text_before_the_right_label(check: Isolation) -> None:
    shown = asked(check, 0)
    assert shown.words.tolist() == [MINUS, PLUS]
    assert len({len(read(shown, item)) for item in range(shown.count)}) > 1, "some are padded"
    for item in range(5):
        *demonstrations, question = joined(read(shown, item)).split("\n")
        assert len(demonstrations) == 4
        assert all(one.split(". It is")[1] in "+-" for one in demonstrations)
        assert question.endswith(". It is")
        is_good = any(word in question for word in ("fine", "lovely", "great", "warm"))
        assert int(shown.right[item]) == is_good, question


def test_labels_and_controls_are_in_their_places(check: Isolation) -> None:
    shown = asked(check, 0)
    for item in range(5):
        text = joined(read(shown, item))
        at = {kind: places[item].tolist() for kind, places in shown.places.items()}
        assert {text[place] for place in at["labels"]} == {"+", "-"}
        assert {text[place] for place in at["separators"]} == {"s"}
        assert {text[place] for place in at["after"]} == {"\n"}
        random = {*at.pop("random")}
        assert (len(random), shown.query) == (4, text.rindex("\n") + 1)
        others = {place for places in at.values() for place in places}
        assert random <= {*shown.text.tolist()} == {*range(shown.query)} - others


def test_sets_have_other_demonstrations_before_the_same_items(check: Isolation) -> None:
    seen = views(check, Subject(replicates=(a_base(),), seed=7))
    assert len(seen) == check.demonstration_sets == 3
    contexts = {joined(view.shown.tokens[0, : view.shown.query].tolist()) for view in seen}
    questions = {joined(read(view.shown, 0)[view.shown.query :]) for view in seen}
    assert (len(contexts), len(questions)) == (3, 1)
    assert torch.equal(seen[0].shown.right, seen[2].shown.right)


def test_permuted_labels_are_the_same_in_another_order(check: Isolation) -> None:
    shown, permuted = asked(check, 0), asked(check, 0, permuted=True)
    labels = shown.places["labels"]
    true, other = (one.tokens.gather(1, labels) for one in (shown, permuted))
    assert all(
        Counter(row) == Counter(mine)
        for row, mine in zip(true.tolist(), other.tolist(), strict=True)
    )
    assert 20 < int((true != other).any(1).sum()) < 100, "in another order in most items"
    assert len({str(row) for row in other.tolist()}) > 3, "each item has its own"
    rest = torch.ones_like(shown.tokens, dtype=torch.bool).scatter(1, labels, value=False)
    assert torch.equal(shown.tokens[rest], permuted.tokens[rest])


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("kind", ["labels", "random", "separators", "after"])
def test_scores_are_those_of_a_plain_model_whose_rows_see_only_themselves(
    short: Isolation, kind: str
) -> None:
    base, shown = a_base(), first(asked(short, 0))
    whole = scores(base, shown)
    given = scores(base, shown, shown.places[kind], (0,))
    for item in range(ITEMS):
        tokens, rows = read(shown, item), shown.places[kind][item].tolist()
        isolated = plain(base, tokens, isolated={0: rows})
        torch.testing.assert_close(given[item], isolated[[MINUS, PLUS]], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(
            whole[item], plain(base, tokens)[[MINUS, PLUS]], rtol=1e-9, atol=1e-12
        )
    assert not torch.allclose(given, whole)


def test_saliencies_and_their_flows_are_those_of_a_plain_model(short: Isolation) -> None:
    base, shown = a_base(), first(asked(short, 0))
    found, shares = saliencies(base, shown), flows(base, shown)
    for item in range(ITEMS):
        tokens, labels = read(shown, item), shown.places["labels"][item].tolist()
        size = len(tokens), len(tokens)
        ones = {
            layer: torch.ones(HEADS, *size, dtype=torch.float64, requires_grad=True)
            for layer in range(LAYERS)
        }
        of_labels = plain(base, tokens, factors=ones)[[MINUS, PLUS]]
        loss = functional.cross_entropy(of_labels, shown.right[item])
        slopes = torch.autograd.grad(loss, list(ones.values()))
        expected = torch.stack([slope.sum(0).abs() for slope in slopes])
        own = found[:, item, : size[0], : size[1]]
        torch.testing.assert_close(own, expected, rtol=1e-8, atol=1e-14)
        for layer in range(LAYERS):
            pairs: dict[str, list[float]] = {"into": [], "out": [], "others": []}
            for i in range(size[0]):
                for j in range(i):
                    kind = "into" if i in labels else "others"
                    kind = "out" if i == size[0] - 1 and j in labels else kind
                    pairs[kind].append(float(expected[layer, i, j]))
            means = torch.tensor([sum(each) / len(each) for each in pairs.values()]).double()
            mine = shares[layer, item, :3]
            torch.testing.assert_close(mine, means / means.sum(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["anchors", "labels", "random"])
def test_queries_read_the_states_of_kept_tokens_only(short: Isolation, kind: str) -> None:
    base, shown = a_base(), first(asked(short, 0))
    places = {**kept_places(shown), "random": random_words(shown, 0, 1)}[kind]
    given, text = logits(base, shown, places), text_logits(base, shown, places)
    for item in range(ITEMS):
        tokens, kept = read(shown, item), places[item].tolist()
        rows = range(shown.query, len(tokens))
        read_by = {row: [*kept, *range(shown.query, row + 1)] for row in rows}
        expected = plain(base, tokens, read_by=read_by)
        torch.testing.assert_close(given[item], expected, rtol=1e-9, atol=1e-12)
        alone = plain(base, [*(tokens[place] for place in kept), *tokens[shown.query :]])
        torch.testing.assert_close(text[item], alone, rtol=1e-9, atol=1e-12)


def test_attention_to_labels_is_read_where_the_answer_is_predicted(short: Isolation) -> None:
    base, shown = a_base(), asked(short, 0)
    auc = label_auc(base, shown)
    for item in range(ITEMS):
        alone = Asked(
            **{
                **vars(shown),
                "tokens": torch.tensor([read(shown, item)]),
                "ends": shown.ends[item : item + 1],
                "right": shown.right[item : item + 1],
                "places": {kind: at[item : item + 1] for kind, at in shown.places.items()},
            }
        )
        assert torch.equal(label_auc(base, alone)[:, 0], auc[:, item])
    assert set(auc.unique().tolist()) <= {0.0, 0.5, 1.0}, "of two labels one is ahead"
    others = [label_auc(a_base(seed), first(asked(short, 0))) for seed in range(8)]
    assert len(torch.cat(others).unique()) > 1


@pytest.mark.parametrize(
    ("changes", "place", "code"),
    [
        ({"task": without(CLASSIFICATION, calibration="empty_input")}, "task", "no_label_words"),
        ({"task": without(CLASSIFICATION, dataset="none")}, "task/dataset", "unknown_dataset"),
        ({"task": {"name": "sort_ascending"}}, "task", "no_label_words"),
        ({"in_context": {**SHOWN, "choice": "nearest"}}, "in_context", "demonstrations_differ"),
        ({"in_context": {**SHOWN, "demonstrations": 60}}, "in_context/demonstrations",
         "context_too_small"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_has_no_label_words_or_no_room_is_refused(
    dataset: Stored, changes: dict[str, Any], place: str, code: str
) -> None:
    document = {"task": dict(CLASSIFICATION), "in_context": SHOWN, **changes}
    found = Isolation.model_validate(document).settled(dataset.datasets).problems(a_base().family)
    assert [(one.pointer, one.code) for one in found] == [(f"/check/{place}", code)]


def test_label_words_of_several_tokens_are_refused_when_they_are_read(dataset: Stored) -> None:
    label = {"field": "label", "words": {"neg": " bad", "pos": " good"}}
    task = without(CLASSIFICATION, label=label, tokens={"longest": 60})
    with pytest.raises(InvalidSpec, match="words of one token"):
        asked(a_check(dataset, task=task), 0)


def a_job(dataset: Stored, family: str) -> tuple[BaseModelFacts, PretrainSpec]:
    document = a_pretrain_document(
        family={"name": family, "layers": 2, "heads": 2, "width": 16, "context": 200},
        task=dict(CLASSIFICATION), training={"steps": 4, "batch_size": 8}, seeds=2,
    )  # fmt: skip
    spec = PretrainSpec.model_validate(document)
    resolved = resolve(spec, None, dataset.datasets)
    facts = BaseModelFacts(
        name="base", digest="0" * 64, family=resolved.family, task=resolved.task, replicates=2
    )
    return facts, spec


@pytest.mark.long("long trainings")
def test_a_job_measures_every_set_of_demonstrations_on_every_replicate(
    dataset: Stored, tmp_path: Path
) -> None:
    base, pretraining = a_job(dataset, "llama")
    made = Remembering()
    run(resolve(pretraining, None, dataset.datasets), (), tmp_path, made, datasets=(dataset.path,))
    files = tuple(written.path for written in made.of(CheckpointWritten))
    checks = [
        {"name": name, "task": dict(CLASSIFICATION), "in_context": SHOWN, "samples": 100,
         "demonstration_sets": 2}
        for name in ("isolation", "saliency")
    ]  # fmt: skip
    asked_for = TheorySpec.model_validate({"checks": checks, "base_model": "base"})
    spec = resolve_theory(asked_for, base, (), dataset.datasets)
    assert [one.name for one in datasets_of(spec)] == ["reviews"]
    seen = Remembering()
    run(spec, files, tmp_path, seen, datasets=(dataset.path,))
    assert Expected.of(spec).problems(seen.events) == ()
    told = {one.check.name: one.check for one in seen.of(TheoryChecked)}
    assert told["isolation.above-chance"].details["replicates"] == 4
    items = spec.checks[0].own_tasks()[0].available("test")
    assert items is not None
    assert told["saliency.above-chance"].details["samples"] == items < 100


def test_a_base_model_without_a_tokeniser_reads_no_texts(dataset: Stored) -> None:
    base, _ = a_job(dataset, "llama")
    asked_for = TheorySpec.model_validate(
        {"checks": [{"name": "saliency", "task": dict(CLASSIFICATION)}], "base_model": "base"}
    )
    with pytest.raises(InvalidSpec) as caught:
        resolve_theory(
            asked_for, base.model_copy(update={"has_tokeniser": False}), (), dataset.datasets
        )
    assert [one.code for one in caught.value.problems] == ["no_tokeniser"]
