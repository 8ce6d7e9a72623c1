"""Saliency of attention weights, against a plain model and by hand."""

import pytest
import torch
from tests.engine.plain import plain_logits
from torch import Tensor
from torch.nn import functional

from adaptlab.families.minigpt import MiniGPT
from adaptlab.runs.theory_report import Check
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.asking import asked_episodes
from adaptlab.theory.checks import saliency as check_of_saliency
from adaptlab.theory.observation import FrozenBase, random_base
from adaptlab.theory.saliency import flows, saliencies
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.saliency import Saliency

TASK = Episodes(kinds=3)
LAYERS, HEADS = 3, 2


def a_base() -> FrozenBase:
    family = MiniGPT(layers=LAYERS, heads=HEADS, width=8)
    return random_base(family.resolved(TASK.vocabulary(), TASK.sequence_length()), 3)


def by_hand(base: FrozenBase, tokens: list[int], right: int) -> Tensor:
    """Return the saliencies [L, T, T] of one item.

    As in the paper's code, the weights are multiplied by ones, whose gradients are products of
    weights and slopes.
    """
    assert isinstance(base.family, MiniGPT)
    size = len(tokens), len(tokens)
    ones = {
        layer: torch.ones(HEADS, *size, dtype=torch.float64, requires_grad=True)
        for layer in range(LAYERS)
    }
    weights = {name: tensor[0] for name, tensor in base.weights.items()}
    logits = plain_logits(base.family, weights, tokens, factors=ones)
    labels = logits[-1, TASK.first_label : TASK.separator]
    loss = functional.cross_entropy(labels, torch.tensor(right - TASK.first_label))
    slopes = torch.autograd.grad(loss, list(ones.values()))
    return torch.stack([slope.sum(0).abs() for slope in slopes])


def test_saliencies_are_those_of_a_plain_model():
    base, shown = a_base(), asked_episodes(TASK, 3, 0)
    found = saliencies(base, shown)
    for item in range(3):
        right = TASK.first_label + int(shown.right[item])
        plain = by_hand(base, shown.tokens[item].tolist(), right)
        torch.testing.assert_close(found[:, item], plain, rtol=1e-8, atol=1e-14)
        assert float(plain.max()) > 0


def test_flows_are_means_over_their_pairs():
    base, shown = a_base(), asked_episodes(TASK, 3, 0)
    found, saliency = flows(base, shown), saliencies(base, shown)
    labels, last = TASK.also_trained(), shown.tokens.shape[-1] - 1
    for layer in range(LAYERS):
        for item in range(3):
            kinds: dict[str, list[float]] = {"into": [], "out": [], "others": [], "beside": []}
            for i in range(last + 1):
                for j in range(i):
                    kind = "into" if i in labels else "others"
                    kind = "out" if i == last and j in labels else kind
                    value = float(saliency[layer, item, i, j])
                    kinds[kind].append(value)
                    if i == last and j not in labels:
                        kinds["beside"].append(value)
            means = torch.tensor([sum(each) / len(each) for each in kinds.values()]).double()
            expected = means / means[:3].sum()
            torch.testing.assert_close(found[layer, item], expected, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found[..., :3].sum(-1), torch.ones(LAYERS, 3).double())
    assert float(found[-1, :, 0].max()) == 0, "nothing reads the last layer's outputs at labels"


def test_verdicts_follow_the_limits(monkeypatch: pytest.MonkeyPatch):
    def premises(verdict: str) -> None:
        one = Check.at_least("saliency.above-chance", "Above chance.", float(verdict == "holds"), 1)
        one = one.model_copy(
            update={"details": {"accuracy": (0.9,), "samples": 100, "replicates": 1}}
        )
        monkeypatch.setattr(check_of_saliency, "used", lambda *_: [one])

    shares = torch.zeros(2, 100, 4, dtype=torch.float64)
    shares[0, :, 1] = torch.linspace(0, 1, 100)  # no more into labels than from them
    shares[1, :, 1] = torch.linspace(0.5, 1, 100)
    monkeypatch.setattr(check_of_saliency, "flows", lambda *_: shares)
    subject = Subject(replicates=(a_base(),), seed=0)
    premises("holds")
    check = Saliency(task=TASK, samples=100)
    told = {one.name: one for one in check_of_saliency.measure(check, subject)}
    assert told["saliency.first-layer"].verdict == "fails"
    assert "saliency.into-labels" not in told, "the last layer but one is the first"
    assert told["saliency.last-layer"].verdict == "holds"
    assert told["saliency.last-layer"].details["from_labels_by_layer"] == pytest.approx((0.5, 0.75))
    assert told["saliency.last-layer"].details["accuracy"] == (0.9,)
    premises("fails")
    assert len(list(check_of_saliency.measure(check, subject))) == 1
