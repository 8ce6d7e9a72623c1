"""Keys of label words and confusion, against a plain model and by hand."""

from itertools import combinations

import numpy as np
import pytest
import torch
from tests.engine.plain import plain_logits
from tests.texts import stored
from torch import Tensor

from adaptlab.families.minigpt import MiniGPT
from adaptlab.runs.theory_report import Check
from adaptlab.tasks.episodes import Episodes
from adaptlab.tasks.text_classification import TextClassification
from adaptlab.text.tokeniser import BYTES_VOCABULARY
from adaptlab.theory import demonstrated
from adaptlab.theory.asking import Asked, asked, asked_episodes
from adaptlab.theory.checks import error_diagnosis as check_of_errors
from adaptlab.theory.label_keys import ClassPairs, Observed, observed, pairs_of_classes
from adaptlab.theory.observation import FrozenBase, random_base
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.error_diagnosis import ErrorDiagnosis

TASK = Episodes(kinds=5, ways=3)
LAYERS, HEADS, WIDTH = 3, 2, 8
DIRECTIONS = 4


def a_base() -> FrozenBase:
    family = MiniGPT(layers=LAYERS, heads=HEADS, width=WIDTH)
    return random_base(family.resolved(TASK.vocabulary(), TASK.sequence_length()), 3)


def plainly(base: FrozenBase, tokens: list[int]) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Return keys at all places and queries by layer, and the last logits."""
    assert isinstance(base.family, MiniGPT)
    weights = {name: tensor[0] for name, tensor in base.weights.items()}
    normal: dict[str, Tensor] = {}

    def listen(name: str, x: Tensor, y: Tensor) -> Tensor:
        normal[name] = x
        return y

    logits = plain_logits(base.family, weights, tokens, sublayer=listen)

    def projected(layer: int, part: str) -> Tensor:
        name = f"blocks.{layer}.attn"
        weight, bias = weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"]
        return normal[name] @ weight.T + bias

    layers = range(LAYERS)
    return [projected(n, "k") for n in layers], [projected(n, "q") for n in layers], logits[-1]


def test_keys_queries_and_logits_are_those_of_a_plain_model():
    base, shown = a_base(), asked_episodes(TASK, 5, 0)
    seen = observed(base, shown)
    places = list(TASK.also_trained())
    for item in range(5):
        keys, queries, logits = plainly(base, shown.tokens[item].tolist())
        torch.testing.assert_close(seen.logits[item], logits, rtol=1e-9, atol=1e-12)
        for layer in range(LAYERS):
            own = seen.keys[layer, item]
            torch.testing.assert_close(own, keys[layer][places], rtol=1e-9, atol=1e-12)
            last = seen.queries[layer, item]
            torch.testing.assert_close(last, queries[layer][-1], rtol=1e-9, atol=1e-12)


def by_hand(seen: Observed, tokens: np.ndarray, right: list[int]) -> dict[tuple[int, int], list]:
    """Return distances by layer and confusion of every pair, with loops."""
    found: dict[tuple[int, int], list] = {}
    for layer in range(LAYERS):
        queries = seen.queries[layer].numpy()
        values, vectors = np.linalg.eigh(
            (queries - queries.mean(0)).T @ (queries - queries.mean(0))
        )
        main = values.argsort()[::-1][:DIRECTIONS]
        for item, row in enumerate(tokens):
            classes: dict[int, list[np.ndarray]] = {}
            for place, label in enumerate(TASK.also_trained()):
                key = seen.keys[layer, item, place].numpy()
                along = (key @ vectors[:, main]) * np.sqrt(values[main].clip(0))
                classes.setdefault(row[label - 2] // TASK.words, []).append(along)
            for pair in combinations(sorted(classes), 2):
                far = np.linalg.norm(np.mean(classes[pair[0]], 0) - np.mean(classes[pair[1]], 0))
                found.setdefault(pair, [[] for _ in range(LAYERS + 1)])[layer].append(far)
    for item, row in enumerate(tokens):
        kind = row[-2] // TASK.words
        for label in TASK.also_trained():
            other = row[label - 2] // TASK.words
            if other == kind:
                continue
            own, wrong = (
                float(seen.logits[item, token].exp()) for token in (right[item], row[label])
            )
            pair = (min(kind, other), max(kind, other))
            found[pair][LAYERS].append(wrong / (own + wrong))  # once for each of two shots
    return found


def test_pairs_have_the_distances_and_confusions_of_loops():
    base, shown = a_base(), asked_episodes(TASK, 100, 0)
    seen = observed(base, shown)
    pairs = pairs_of_classes(TASK, shown, seen, DIRECTIONS)
    right = shown.words[shown.right].tolist()
    expected = by_hand(seen, shown.tokens.numpy(), right)
    assert len(expected) == pairs.confusion.shape[0] == 10
    assert len(set(pairs.episodes.tolist())) > 1
    for place, pair in enumerate(sorted(expected)):
        *distances, confusion = expected[pair]
        for layer in range(LAYERS):
            assert -float(pairs.closeness[layer, place]) == pytest.approx(np.mean(distances[layer]))
        assert float(pairs.confusion[place]) == pytest.approx(np.mean(confusion))
        assert int(pairs.episodes[place]) == len(confusion) / TASK.shots


def a_base_of_bytes() -> FrozenBase:
    family = MiniGPT(layers=LAYERS, heads=HEADS, width=WIDTH)
    return random_base(family.resolved(BYTES_VOCABULARY, 128), 3)


KINDS = "abcdef"
"""Labels of texts, whose words are their capital letters."""


@pytest.fixture(scope="module")
def on_texts(tmp_path_factory: pytest.TempPathFactory) -> ErrorDiagnosis:
    records = [
        {"text": f"{KINDS[n % 6] * (1 + n % 5)} {n}", "label": KINDS[n % 6]} for n in range(600)
    ]
    dataset = stored(tmp_path_factory.mktemp("texts"), records)
    check = ErrorDiagnosis.model_validate(a_text_check())
    return check.settled(dataset.datasets).with_texts(dataset.source())


def a_text_check(kinds: str = KINDS) -> dict[str, object]:
    task = {
        "name": "text_classification",
        "dataset": "reviews",
        "prompt": "{text}:",
        "label": {"field": "label", "words": {kind: kind.upper() for kind in kinds}},
        "tokens": {"longest": 16},
    }
    shown = {"demonstrations": 6, "longest": 16, "separator": "\n"}
    return {"task": task, "in_context": shown, "samples": 100}


def test_classes_of_texts_are_their_labels(on_texts: ErrorDiagnosis):
    base = a_base_of_bytes()
    assert on_texts.problems(base.family) == ()
    shown = asked(on_texts, 0)
    assert len({*shown.ends.tolist()}) > 1, "some are padded"
    seen = observed(base, shown)
    for item in (0, 7):
        read = shown.tokens[item, : int(shown.ends[item]) + 1].tolist()
        keys, queries, logits = plainly(base, read)
        torch.testing.assert_close(seen.logits[item], logits, rtol=1e-9, atol=1e-12)
        places = shown.places["labels"][item].tolist()
        assert sorted(chr(read[place]) for place in places) == list("ABCDEF")
        for layer in range(LAYERS):
            torch.testing.assert_close(
                seen.keys[layer, item], keys[layer][places], rtol=1e-9, atol=1e-12
            )
            torch.testing.assert_close(
                seen.queries[layer, item], queries[layer][-1], rtol=1e-9, atol=1e-12
            )
    pairs = pairs_of_classes(on_texts.task, shown, seen, DIRECTIONS)
    assert pairs.closeness.shape == (LAYERS, 15)
    confused: dict[tuple[int, int], list[float]] = {}
    for item, own in enumerate(shown.right.tolist()):
        for other in {*range(6)} - {own}:
            one, wrong = (
                float(seen.logits[item, ord(KINDS[kind].upper())].exp()) for kind in (own, other)
            )
            pair = (min(own, other), max(own, other))
            confused.setdefault(pair, []).append(wrong / (one + wrong))
    expected = [np.mean(confused[pair]) for pair in sorted(confused)]
    assert pairs.confusion.tolist() == pytest.approx(expected)
    assert pairs.episodes.tolist() == [len(confused[pair]) for pair in sorted(confused)]


def test_few_labels_of_texts_are_refused(on_texts: ErrorDiagnosis):
    task = on_texts.task
    assert isinstance(task, TextClassification)
    label = task.label.model_copy(update={"words": {"a": "A", "b": "B"}})
    few = task.model_copy(update={"label": label})
    check = on_texts.model_copy(update={"task": few})
    (problem,) = check.problems(a_base_of_bytes().family)
    assert (problem.pointer, problem.code) == ("/check/task/label/words", "too_few_pairs")
    assert "2 classes are 1 pair," in problem.detail


def measured(
    monkeypatch: pytest.MonkeyPatch, signs: list[int], *, wrong: float = 0
) -> dict[str, Check]:
    """Return the reports if replicates' layer 2 has these signs of rho."""

    def premise(base: FrozenBase, shown: Asked) -> Tensor:
        is_permuted = not torch.equal(shown.tokens, asked_episodes(TASK, 100, 0).tokens)
        answers = shown.right.clone()
        answers[: round(100 * (0.66 if is_permuted else wrong))] += 1
        return answers

    generator = torch.Generator().manual_seed(1)
    every = iter(
        ClassPairs(
            closeness=torch.stack([torch.zeros(10), torch.zeros(10), sign * torch.arange(10.0)]),
            confusion=torch.arange(10) + 2 * torch.rand(10, generator=generator),
            episodes=torch.full((10,), 7),
        )
        for sign in signs
    )
    monkeypatch.setattr(demonstrated, "answers", premise)
    monkeypatch.setattr(check_of_errors, "pairs_of_classes", lambda *_: next(every))
    monkeypatch.setattr(check_of_errors, "observed", lambda *_: None)
    check = ErrorDiagnosis(task=TASK, samples=100)
    subject = Subject(replicates=tuple(a_base() for _ in signs), seed=0)
    return {report.name: report for report in check_of_errors.measure(check, subject)}


@pytest.mark.parametrize(
    ("signs", "verdict", "opposite"),
    [
        ([1], "holds", False),
        ([1, 1, 1], "holds", False),
        ([1, -1, 1], "fails", False),
        ([-1, -1, -1], "fails", True),
    ],
)
def test_rho_of_two_thirds_of_all_layers_decides(
    monkeypatch: pytest.MonkeyPatch, signs: list[int], verdict: str, opposite: bool
):
    told = measured(monkeypatch, signs)["error_diagnosis.rho"]
    assert told.verdict == verdict
    details = told.details
    assert (details["layer"], details["pairs"], details["fewest_episodes"]) == (2, 10, 7)
    high = details["high"]
    assert isinstance(high, float)
    assert (high < 0) == opposite
    rhos = details["rho"]
    assert isinstance(rhos, tuple)
    assert [rho > 0 for rho in rhos] == [sign > 0 for sign in signs]


def test_nothing_is_claimed_of_a_base_at_chance(monkeypatch: pytest.MonkeyPatch):
    told = measured(monkeypatch, [1, 1], wrong=0.65)
    assert told.keys() == {"error_diagnosis.above-chance", "error_diagnosis.permuted"}


@pytest.mark.parametrize(
    ("given", "pointer", "nearest"),
    [
        ({"task": Episodes(kinds=4)}, "/check/task/kinds", (5,)),
        ({"task": TASK, "layer": 3}, "/check/layer", (2,)),
    ],
)
def test_few_classes_and_missing_layers_are_refused(
    given: dict[str, object], pointer: str, nearest: tuple[int, ...]
):
    check = ErrorDiagnosis.model_validate(given)
    (problem,) = check.problems(a_base().family)
    assert (problem.pointer, problem.nearest) == (pointer, nearest)
    assert ErrorDiagnosis(task=TASK).problems(a_base().family) == ()
