"""Attention to label words, against a plain model and by hand."""

import pytest
import torch
from scipy.stats import mannwhitneyu
from tests.engine.plain import plain_logits
from torch import Tensor

from adaptlab.families.minigpt import MiniGPT
from adaptlab.runs.theory_report import Check
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.asking import Asked, asked_episodes
from adaptlab.theory.checks import label_attention as check_of_attention
from adaptlab.theory.label_attention import cumulative_share, label_auc
from adaptlab.theory.observation import FrozenBase, random_base
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.label_attention import LabelAttention

pytestmark = pytest.mark.long("recipes")

TASK = Episodes(kinds=4, ways=3)
LAYERS, HEADS = 3, 2


def a_base() -> FrozenBase:
    family = MiniGPT(layers=LAYERS, heads=HEADS, width=8)
    return random_base(family.resolved(TASK.vocabulary(), TASK.sequence_length()), 3)


def by_hand(base: FrozenBase, tokens: list[int]) -> tuple[list[dict[int, float]], int]:
    """Return the attention to each label by layer, and the model's answer.

    Weights are read as slopes of the logits' inputs: with the weights of one layer multiplied by
    factors, the mixed values of the last row change by them.
    """
    assert isinstance(base.family, MiniGPT)
    weights = {name: tensor[0] for name, tensor in base.weights.items()}
    gathered: dict[str, Tensor] = {}

    def keep(name: str, mixed: Tensor) -> Tensor:
        gathered[name] = mixed
        return mixed

    logits = plain_logits(base.family, weights, tokens, mix=keep)
    answer = int(logits[-1, TASK.first_label : TASK.separator].argmax()) + TASK.first_label
    layers: list[dict[int, float]] = []
    for layer in range(LAYERS):
        factor = torch.ones(HEADS, len(tokens), len(tokens), dtype=torch.float64)
        factor.requires_grad_()
        row: list[Tensor] = []

        def listen(name: str, mixed: Tensor, layer: int = layer, row: list[Tensor] = row) -> Tensor:
            if name == f"blocks.{layer}.attn":
                row.append(mixed[-1])
            return mixed

        # Values of ones make what is gathered the sum of the weights.
        ones = {**weights, f"blocks.{layer}.attn.v.weight": 0 * weights["blocks.0.attn.v.weight"]}
        ones[f"blocks.{layer}.attn.v.bias"] = torch.ones_like(weights["blocks.0.attn.v.bias"])
        plain_logits(base.family, ones, tokens, factors={layer: factor}, mix=listen)
        (slopes,) = torch.autograd.grad(row[0].sum(), factor)
        size = base.family.width // HEADS
        attention = slopes[:, -1].sum(0) / size
        scores: dict[int, float] = {}
        for place in TASK.also_trained():
            scores[tokens[place]] = scores.get(tokens[place], 0.0) + float(attention[place])
        layers.append(scores)
    return layers, answer


def test_auc_is_that_of_the_attention_of_a_plain_model():
    base, shown = a_base(), asked_episodes(TASK, 20, 0)
    found = label_auc(base, shown)
    compared = 0
    for item in range(20):
        layers, answer = by_hand(base, shown.tokens[item].tolist())
        for layer, scores in enumerate(layers):
            given = float(found[layer, item])
            if answer not in scores:
                assert given == 0.5
                continue
            compared += 1
            labels = list(scores)
            others = [scores[label] for label in labels if label != answer]
            # By ranks. Not by scikit-learn, which brings threads that compete with torch's.
            statistic = mannwhitneyu([scores[answer]], others).statistic
            assert given == pytest.approx(statistic / len(others))
    assert compared > 15
    assert len(set(found.flatten().tolist())) == 3


def test_the_share_is_cumulated_over_layers():
    share = cumulative_share(torch.tensor([0.5, 0.6, 0.8]))
    torch.testing.assert_close(share, torch.tensor([0.0, 0.25, 1.0]))
    assert cumulative_share(torch.tensor([0.4, 0.5])).tolist() == [0, 0]


def measured(
    monkeypatch: pytest.MonkeyPatch, shares: list[float], *, wrong: float = 0
) -> dict[str, Check]:
    """Return the reports on a base with these AUC by layer."""
    from adaptlab.theory import demonstrated

    def premise(base: FrozenBase, shown: Asked) -> Tensor:
        is_permuted = not torch.equal(shown.tokens, asked_episodes(TASK, 100, 0).tokens)
        answers = shown.right.clone()
        answers[: round(100 * (0.6 if is_permuted else wrong))] += 1
        return answers

    auc = torch.stack([(torch.arange(100) < round(100 * share)).double() for share in shares])
    monkeypatch.setattr(demonstrated, "answers", premise)
    monkeypatch.setattr(check_of_attention, "label_auc", lambda *_: auc)
    check = LabelAttention(task=TASK, samples=100)
    subject = Subject(replicates=(a_base(),), seed=0)
    return {report.name: report for report in check_of_attention.measure(check, subject)}


def test_each_claim_has_a_verdict_and_what_refutes_it(monkeypatch: pytest.MonkeyPatch):
    told = measured(monkeypatch, [0.5, 0.6, 0.9])
    names = ("last-layer", "rises", "late")
    assert [told[f"label_attention.{name}"].verdict for name in names] == ["holds"] * 3
    details = told["label_attention.rises"].details
    assert details["difference"] == pytest.approx(0.4)
    assert details["cumulative_share"] == pytest.approx((0, 0.2, 1))
    falls = measured(monkeypatch, [0.9, 0.6, 0.1])
    assert [falls[f"label_attention.{name}"].verdict for name in names] == ["fails"] * 3
    high = falls["label_attention.last-layer"].details["high"]
    assert isinstance(high, float)
    assert high < 0, "the opposite is shown"


def test_nothing_is_claimed_of_a_base_at_chance(monkeypatch: pytest.MonkeyPatch):
    told = measured(monkeypatch, [0.5, 0.6, 0.9], wrong=0.62)
    assert told.keys() == {"label_attention.above-chance", "label_attention.permuted"}
