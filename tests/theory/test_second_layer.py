"""The four terms of second-layer scores against the formula."""

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH

from adaptlab.engine.models.attachments import merged
from adaptlab.errors import AdaptlabError
from adaptlab.families.formal import AttentionLayer, Formal, Head, LinearLayer
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.theory.observation import FrozenBase, observe, random_attachments, random_base
from adaptlab.theory.second_layer import TERMS, four_terms, second_layer_scores

TOKENS = torch.arange(3 * 5).view(1, 3, 5) * 5 % 6


def two_layers(heads: int = 1, *between: LinearLayer) -> FrozenBase:
    layer = AttentionLayer(heads=(Head(key_size=3, value_size=4),) * heads)
    family = Formal(width=4, stack=(layer, *between, layer))
    return random_base(family.resolved(6, 5), seed=1, spread=0.7)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("length", [1, 3])
def test_they_sum_to_the_scores_of_the_model(heads: int, length: int):
    base = two_layers(heads)
    prefix = random_attachments(base, PrefixTuning(length=length), seed=2)
    check = four_terms(base, TOKENS, prefix)
    assert check.verdict == "holds"
    assert check.measured < 1e-14
    found = second_layer_scores(base, TOKENS, prefix)
    hidden = found.scores.masked_fill(~found.seen, -torch.inf)
    assert torch.allclose(hidden.softmax(-1), observe(base, TOKENS, prefix)[1].relative)
    assert torch.equal(found.seen, torch.ones(5, 5).tril().bool())


def test_each_is_the_product_that_the_paper_writes():
    base = two_layers()
    prefix = random_attachments(base, PrefixTuning(length=1), seed=2)
    found = second_layer_scores(base, TOKENS, prefix)
    weights = {name: tensor[0] for name, tensor in base.weights.items()}
    x = torch.cat([weights["embed.weight"][TOKENS[0, 2]], torch.eye(5).double()], -1)
    s = prefix.attention_inputs["blocks.0.attn.input"][0, 0]
    query, key, value = (weights[f"blocks.0.attn.{part}.weight"] for part in "qkv")
    scores = (x @ query.T) @ torch.cat([s.unsqueeze(0), x]).matmul(key.T).T / 3**0.5
    scores = scores.masked_fill(torch.ones(5, 6).triu(2).bool(), -torch.inf).exp()
    alpha = scores[:, 0] / scores.sum(-1)
    t = scores[:, 1:] / scores[:, 1:].sum(-1, keepdim=True) @ x @ value.T
    mu = value @ s
    h = weights["blocks.1.attn.q.weight"].T @ weights["blocks.1.attn.k.weight"] / 3**0.5
    for i in range(5):
        for j in range(5):
            expected = (
                alpha[i] * alpha[j] * (mu @ h @ mu),
                alpha[j] * (1 - alpha[i]) * (t[i] @ h @ mu),
                alpha[i] * (1 - alpha[j]) * (mu @ h @ t[j]),
                (1 - alpha[i]) * (1 - alpha[j]) * (t[i] @ h @ t[j]),
            )
            measured = [float(found.terms[name][0, 2, 0, i, j]) for name in TERMS]
            assert measured == pytest.approx([float(e) for e in expected], abs=1e-13)


def test_steering_is_what_is_left_of_a_row_without_its_mean():
    base = two_layers()
    prefix = random_attachments(base, PrefixTuning(length=1), seed=2)
    found, details = second_layer_scores(base, TOKENS, prefix), four_terms(base, TOKENS, prefix)
    for name in TERMS:
        whole: list[float] = []
        steering: list[float] = []
        for sample in range(3):
            for i in range(5):
                row = found.terms[name][0, sample, 0, i, : i + 1].tolist()
                whole += row
                steering += [each - sum(row) / len(row) for each in row]
        for kind, numbers in (("size", whole), ("steering", steering)):
            expected = (sum(n * n for n in numbers) / len(numbers)) ** 0.5
            assert details.details[f"{kind}_{name}"] == pytest.approx(expected)


def test_an_update_of_the_second_layer_is_in_none_of_them():
    base = two_layers()
    prefix = random_attachments(base, PrefixTuning(length=1), seed=2)
    updated = random_attachments(base, Lora(rank=1, sites=("blocks.1.attn.q",)), seed=3)
    assert four_terms(base, TOKENS, merged([prefix, updated])).verdict == "fails"


@pytest.mark.parametrize(
    "base",
    [
        two_layers(1, LinearLayer(width=4)),
        random_base(SMALL_OF_EACH["minigpt"].resolved(8, 9), seed=1),
    ],
    ids=["layer-between", "minigpt"],
)
def test_layers_with_something_between_them_are_refused(base: FrozenBase):
    prefix = random_attachments(base, PrefixTuning(length=1), seed=2)
    with pytest.raises(AdaptlabError, match="nothing between them"):
        four_terms(base, TOKENS, prefix)
