"""Nearest-centroid accuracy where it is known; no test is trained on."""

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH
from torch import Tensor

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.errors import AdaptlabError
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.theory.clusters import (
    attention_output,
    cross_validated_accuracy,
    displacement_cosine,
    prefix_clusters,
    random_clusters,
)
from adaptlab.theory.observation import FrozenBase, random_attachments, random_base

SAMPLES = 40
TOKENS = torch.randint(0, 8, (1, SAMPLES, 9), generator=torch.Generator().manual_seed(3))
NO_CUE = torch.arange(SAMPLES) % 4
LAST_OF_QUESTION = 4
FAMILIES = ["minigpt", "gpt2", "llama", "formal"]


def base_of(family: str) -> FrozenBase:
    return random_base(SMALL_OF_EACH[family].resolved(8, 9), seed=1)


def prefixes(base: FrozenBase, count: int) -> list[Attachments]:
    """Prefixes that are far from each other and take most of the attention."""
    return [random_attachments(base, PrefixTuning(length=6), seed, 2.0) for seed in range(count)]


def test_noise_is_told_apart_by_chance_alone():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(200, 1000, generator=generator).double()
    labels = torch.arange(200) % 4
    held_out = cross_validated_accuracy(features, labels, torch.arange(200), 5)
    assert held_out == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 200) ** 0.5)
    centroids = torch.stack([features[labels == kind].mean(0) for kind in range(4)])
    trained_on = torch.cdist(features, centroids).argmin(-1) == labels
    assert trained_on.double().mean() > 0.9  # what testing on training rows would have said


def test_rows_of_one_input_are_held_out_together():
    """Inputs are far apart: only an input's own rows tell its label."""
    generator = torch.Generator().manual_seed(1)
    spots = 100 * torch.randn(4, 300, generator=generator).double()
    inputs = torch.arange(4).repeat_interleave(10)
    labels = torch.tensor([0, 1, 0, 1]).repeat_interleave(10)
    features = spots[inputs]
    together = cross_validated_accuracy(features, labels, inputs, 4)
    apart = cross_validated_accuracy(features, labels, torch.arange(40), 4)
    assert together < 0.8
    assert apart == 1


def test_clusters_are_told_apart():
    features = torch.tensor([[0.0, 0], [0.1, 0], [5, 5], [5.1, 5]]).double()
    labels, inputs = torch.tensor([7, 7, 2, 2]), torch.tensor([0, 1, 0, 1])
    assert cross_validated_accuracy(features, labels, inputs, 2) == 1
    assert cross_validated_accuracy(features, labels.flip(0), inputs, 2) == 1
    assert cross_validated_accuracy(features, torch.tensor([7, 2, 2, 7]), inputs, 2) == 0


def test_the_cosine_of_known_displacements():
    plain = torch.zeros(2, 2).double()
    alike, opposed = torch.tensor([[1.0, 0], [2, 0]]), torch.tensor([[1.0, 0], [-3, 0]])
    assert displacement_cosine(plain, alike.double().unsqueeze(0)) == pytest.approx(1)
    assert displacement_cosine(plain, opposed.double().unsqueeze(0)) == pytest.approx(-1)
    both = torch.stack([alike, torch.tensor([[1.0, 0], [0, 1]])]).double()
    assert displacement_cosine(plain, both) == pytest.approx(0.5)


def test_the_output_is_what_attention_adds_to_the_stream():
    base = base_of("gpt2")
    found = attention_output(base, TOKENS, NOTHING_ATTACHED, 0, LAST_OF_QUESTION)
    heard: list[Tensor] = []
    from_model = Attachments(outputs={"blocks.0.attn": lambda x, y: (heard.append(y), y)[1]})
    forward = ENGINE_FAMILIES.get("gpt2")
    forward(base.family, base.weights, TOKENS, from_model, slice(None), LayerRecorder())
    assert torch.allclose(found, heard[0][0, :, LAST_OF_QUESTION], atol=1e-13)


@pytest.mark.parametrize("family", FAMILIES)
def test_prefixes_make_clusters_of_what_had_none(family: str):
    base = base_of(family)
    before, after = prefix_clusters(base, TOKENS, NO_CUE, prefixes(base, 3), LAST_OF_QUESTION)
    assert (before.verdict, after.verdict) == ("holds", "holds")
    assert before.tolerance == pytest.approx(0.25 + 4 * (0.25 * 0.75 / SAMPLES) ** 0.5)
    assert after.measured > 0.9
    assert after.details["chance"] == pytest.approx(1 / 3)


def test_random_prefixes_that_make_clusters_fail_the_control():
    base = base_of("minigpt")
    far = random_clusters(base, TOKENS, prefixes(base, 3), LAST_OF_QUESTION)
    assert (far.name, far.bound, far.verdict) == ("clusters.random", "at most", "fails")
    assert far.details["chance"] == pytest.approx(1 / 3)
    alike = random_clusters(base, TOKENS, prefixes(base, 1) * 2, LAST_OF_QUESTION)
    assert alike.verdict == "holds"
    assert alike.measured <= 0.5


def test_one_prefix_twice_makes_no_clusters():
    base = base_of("minigpt")
    twice = prefixes(base, 1) * 2
    _, after = prefix_clusters(base, TOKENS, NO_CUE, twice, LAST_OF_QUESTION)
    assert after.verdict == "fails"
    assert after.measured <= 0.5


def test_tasks_with_a_cue_are_told_apart_before():
    base = base_of("minigpt")
    tokens = (TOKENS[:, :, :1] % 2).expand(-1, -1, 9)
    cue = tokens[0, :, 0]
    before, _ = prefix_clusters(base, tokens, cue, prefixes(base, 2), LAST_OF_QUESTION)
    assert (before.verdict, before.measured) == ("fails", 1)


def test_what_cannot_be_held_out_is_refused():
    base = base_of("minigpt")
    with pytest.raises(AdaptlabError, match="2 or more"):
        prefix_clusters(base, TOKENS, NO_CUE, prefixes(base, 1), LAST_OF_QUESTION)
    with pytest.raises(AdaptlabError, match="41 folds"):
        prefix_clusters(base, TOKENS, NO_CUE, prefixes(base, 2), LAST_OF_QUESTION, folds=41)
