"""Compressed demonstrations, against a plain model and by hand."""

from typing import Any

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH
from tests.engine.plain import plain_logits
from torch import Tensor

from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.family import Family
from adaptlab.runs.theory_report import Check
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory import demonstrated
from adaptlab.theory.asking import Asked, asked_episodes
from adaptlab.theory.checks import compression as check_of_compression
from adaptlab.theory.compression import (
    kept_places,
    logits,
    overlap,
    random_words,
    text_logits,
)
from adaptlab.theory.observation import FrozenBase, random_base
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.compression import Compression

TASK = Episodes(kinds=3)
QUERY = 20
ITEMS = 6


def a_base(family: Family | None = None) -> FrozenBase:
    family = family or MiniGPT(layers=3, heads=2, width=8)
    return random_base(family.resolved(TASK.vocabulary(), TASK.sequence_length()), 3)


def plain(base: FrozenBase, tokens: list[int], kept: list[int] | None = None) -> Tensor:
    assert isinstance(base.family, MiniGPT)
    weights = {name: tensor[0] for name, tensor in base.weights.items()}
    read_by = {}
    if kept is not None:
        read_by = {row: [*kept, *range(QUERY, row + 1)] for row in range(QUERY, len(tokens))}
    return plain_logits(base.family, weights, tokens, read_by=read_by)[-1]


@pytest.mark.parametrize("kind", ["anchors", "formatting", "labels", "breaks", "random"])
def test_queries_read_the_states_of_kept_tokens_only(kind: str):
    base, shown = a_base(), asked_episodes(TASK, ITEMS, 0)
    places = {**kept_places(shown), "random": random_words(shown, 0, 3)}[kind]
    given = logits(base, shown, places)
    for item in range(ITEMS):
        tokens = shown.tokens[item].tolist()
        expected = plain(base, tokens, places[item].tolist())
        torch.testing.assert_close(given[item], expected, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(given, logits(base, shown))


@pytest.mark.parametrize("name", ["minigpt", "gpt2", "llama"])
def test_nothing_changes_if_everything_is_kept(name: str):
    base, shown = a_base(SMALL_OF_EACH[name]), asked_episodes(TASK, ITEMS, 0)
    everything = torch.arange(QUERY).expand(ITEMS, -1)
    whole = logits(base, shown)
    kept = logits(base, shown, everything)
    torch.testing.assert_close(kept, whole, rtol=1e-9, atol=1e-12)
    text = text_logits(base, shown, everything)
    torch.testing.assert_close(text, whole, rtol=1e-9, atol=1e-12)


def test_a_text_of_the_anchors_is_a_text_of_its_own():
    base, shown = a_base(), asked_episodes(TASK, ITEMS, 0)
    given = text_logits(base, shown, kept_places(shown)["anchors"])
    for item in range(ITEMS):
        tokens = shown.tokens[item].tolist()
        text = [
            tokens[place] for start in range(0, QUERY, 5) for place in range(start + 2, start + 5)
        ]
        expected = plain(base, [*text, *tokens[QUERY:]])
        torch.testing.assert_close(given[item], expected, rtol=1e-9, atol=1e-12)


def test_kept_tokens_are_of_their_kind():
    shown = asked_episodes(TASK, 40, 0)
    tokens, places = shown.tokens, kept_places(shown)
    sizes = {kind: at.shape for kind, at in places.items()}
    assert sizes == {
        "anchors": (40, 12),
        "formatting": (40, 8),
        "labels": (40, 4),
        "breaks": (40, 4),
    }
    labels = tokens.gather(1, places["labels"])
    assert bool(((labels >= TASK.first_label) & (labels < TASK.separator)).all())
    signs = {TASK.separator, TASK.line_break}
    assert set(tokens.gather(1, places["formatting"]).flatten().tolist()) == signs


def test_draws_are_as_many_tokens_and_none_is_kept_from_the_draw_before():
    shown = asked_episodes(TASK, 40, 0)
    draws = [random_words(shown, 0, draw) for draw in range(20)]
    tokens = shown.tokens
    assert {draw.shape for draw in draws} == {(40, 12)}
    for draw in draws:
        words = tokens.gather(1, draw) < TASK.first_label
        assert bool((words.sum(1) == 4).all())
        assert all(len(set(row)) == 12 for row in draw.tolist())
    assert len({str(draw.tolist()) for draw in draws}) == 20
    assert torch.equal(draws[3], random_words(shown, 0, 3))
    assert not torch.equal(draws[3], random_words(shown, 1, 3))


def test_word_loyalty_is_the_overlap_of_the_five_likeliest_tokens():
    first = torch.tensor([[9.0, 8, 7, 6, 5, 0, 0, 0, 0, 0, 0]])
    second = torch.tensor([[9.0, 8, 7, 0, 0, 6, 5, 0, 0, 0, 0]])
    assert float(overlap(first, first)) == 1
    assert float(overlap(first, second)) == pytest.approx(3 / 7)
    assert float(overlap(first, -first)) == 0


def measured(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, float], *, wrong: float = 0, draws: int = 3
) -> dict[str, Check]:
    """Return the reports on a base whose compressed answers change by shares.

    `changed` is by kind: `anchors`, `text`, `labels`, `breaks`, and each draw of `random`. `wrong`
    is the share of wrong answers with true labels.
    """
    check = Compression(task=TASK, samples=100, draws=draws)
    shown = asked_episodes(TASK, 100, 0)
    right, places = shown.words[shown.right], kept_places(shown)
    kinds = {str(at.tolist()): kind for kind, at in places.items()}
    kinds |= {str(random_words(shown, 0, d).tolist()): f"random-{d}" for d in range(draws)}

    def given(share: float) -> Tensor:
        answers = right.clone()
        answers[: round(100 * share)] = TASK.first_label
        changed = (right[: round(100 * share)] == TASK.first_label).nonzero()
        answers[changed] = TASK.first_label + 1
        return torch.nn.functional.one_hot(answers, TASK.vocabulary()).double()

    def answered(base: Any, shown: Any, kept: Tensor | None = None) -> Tensor:
        return given(0 if kept is None else changed[kinds[str(kept.tolist())]])

    def premise(base: Any, given: Asked) -> Tensor:
        is_permuted = not torch.equal(given.tokens, shown.tokens)
        answers = given.right.clone()
        answers[: round(100 * (0.5 if is_permuted else wrong))] += 1
        return answers

    monkeypatch.setattr(check_of_compression, "logits", answered)
    monkeypatch.setattr(check_of_compression, "text_logits", lambda *_: given(changed["text"]))
    monkeypatch.setattr(demonstrated, "answers", premise)
    subject = Subject(replicates=(a_base(),), seed=0)
    return {report.name: report for report in check_of_compression.measure(check, subject)}


CHANGED = {
    "anchors": 0.1,
    "text": 0.5,
    "random-0": 0.6,
    "random-1": 0.12,
    "random-2": 0.6,
    "labels": 0.2,
    "breaks": 0.6,
}


def test_each_comparison_has_a_verdict_of_its_own(monkeypatch: pytest.MonkeyPatch):
    told = measured(monkeypatch, CHANGED)
    verdicts = {name.removeprefix("compression."): one.verdict for name, one in told.items()}
    assert verdicts == {
        "above-chance": "holds",
        "permuted": "holds",
        "random": "holds",
        "random-top": "fails",  # the best draw changes 12 answers, and the anchors 10
        "text": "holds",
        "labels-alone": "holds",
    }
    details = told["compression.random"].details
    assert details["loyalty_hidden_anchor"] == (0.9,)
    assert details["accuracy_hidden_anchor"] == (0.9,)
    assert details["loyalty_hidden_random"] == (pytest.approx(0.56),)
    assert details["loyalty_hidden_random_top"] == (0.88,)
    assert details["difference"] == pytest.approx(0.34)


def test_nothing_is_claimed_of_a_base_at_chance(monkeypatch: pytest.MonkeyPatch):
    told = measured(monkeypatch, CHANGED, wrong=0.45)
    assert told.keys() == {"compression.above-chance", "compression.permuted"}
    assert told["compression.permuted"].verdict == "fails"


def test_the_cost_counts_every_draw():
    base = a_base().family
    few, many = (Compression(task=TASK, samples=100, draws=draws) for draws in (1, 11))
    assert many.tokens(base) - few.tokens(base) == 10 * 100 * TASK.sequence_length()
