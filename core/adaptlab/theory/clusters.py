"""Clusters of attention outputs under prefixes, cross-validated."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.errors import AdaptlabError
from adaptlab.theory.check import Check
from adaptlab.theory.observation import FrozenBase, observe

SEPARATE = 0.9
"""The least accuracy at which outputs under prefixes count as clusters."""

STANDARD_ERRORS = 4


def prefix_clusters(
    base: FrozenBase,
    tokens: Tensor,
    tasks: Tensor,
    prefixes: Sequence[Attachments],
    position: int,
    *,
    layer: int = 0,
    folds: int = 5,
    least: float = SEPARATE,
) -> tuple[Check, Check]:
    """Check nearest-centroid accuracy without and with prefixes.

    Before: predict the true task [N] of each sample from the base's output for tokens [1, N, T].
    After: predict the prefix from the outputs of the same samples under every prefix. The output is
    that of attention layer `layer` after W_O at `position`, in the paper the last of the question.
    The accuracy after must reach `least`; that before may exceed chance by four standard errors.
    Every prefix has one replicate.
    """
    _check_sizes(len(prefixes), tokens.shape[1], folds)
    plain = attention_output(base, tokens, NOTHING_ATTACHED, layer, position)
    moved = torch.stack(
        [attention_output(base, tokens, prefix, layer, position) for prefix in prefixes]
    )
    return _before(plain, tasks, folds), _after(plain, moved, folds, least)


def random_clusters(
    base: FrozenBase,
    tokens: Tensor,
    prefixes: Sequence[Attachments],
    position: int,
    *,
    layer: int = 0,
    folds: int = 5,
    least: float = SEPARATE,
) -> Check:
    """Check that random prefixes make no clusters: a control.

    Any prefix adds the same vectors to all outputs. If random ones reach `least` too, clusters show
    that prefixes differ, but not that anything was learned.
    """
    _check_sizes(len(prefixes), tokens.shape[1], folds)
    plain = attention_output(base, tokens, NOTHING_ATTACHED, layer, position)
    moved = torch.stack(
        [attention_output(base, tokens, prefix, layer, position) for prefix in prefixes]
    )
    accuracy, details = _by_prefix(plain, moved, folds)
    return Check.at_most(
        "clusters.random",
        "Control: random prefixes of the same size make no such clusters; if they do, clusters "
        "show nothing that was learned.",
        accuracy,
        least,
        **details,
    )


def attention_output(
    base: FrozenBase, tokens: Tensor, attached: Attachments, layer: int, position: int
) -> Tensor:
    """Return a layer's attention output [N, C] at a position."""
    attention = observe(base, tokens, attached)[layer]
    gathered = attention.gathered[..., position, :]  # R, N, H, D
    weight, bias = (base.weights.get(f"{attention.name}.o.{part}") for part in ("weight", "bias"))
    outputs = (
        gathered.sum(2) if weight is None else grouped.linear(gathered.flatten(2), weight, bias)
    )
    if len(outputs) != 1:
        raise AdaptlabError(
            f"{len(outputs)} replicates were given, whose outputs share no space; give them one "
            "at a time."
        )
    return outputs[0].cpu()


def cross_validated_accuracy(features: Tensor, labels: Tensor, inputs: Tensor, folds: int) -> float:
    """Return the nearest centroid's accuracy on features [M, C].

    Centroids come from the other folds. Rows with the same entry of `inputs` [M] are in the same
    fold, so that no centroid depends on the sample it is tested with.
    """
    right = torch.zeros_like(labels, dtype=torch.bool)
    kinds = labels.unique()
    for fold in range(folds):
        held_out = inputs % folds == fold
        centroids = torch.stack([features[~held_out & (labels == kind)].mean(0) for kind in kinds])
        nearest = torch.cdist(features[held_out], centroids).argmin(-1)
        right[held_out] = kinds[nearest] == labels[held_out]
    return float(right.double().mean())


def displacement_cosine(plain: Tensor, moved: Tensor) -> float:
    """Return the mean cosine of two samples' displacements by a prefix.

    Displacements are from outputs without a prefix [N, C] to those under K prefixes [K, N, C].
    """
    directions = functional.normalize(moved - plain, dim=-1)
    count = directions.shape[1]
    together = directions.sum(1).square().sum(-1)  # all pairs, a sample with itself included
    return float(((together - directions.square().sum((1, 2))) / (count * (count - 1))).mean())


def _before(plain: Tensor, tasks: Tensor, folds: int) -> Check:
    count, kinds = len(plain), len(tasks.unique())
    chance = float(tasks.unique(return_counts=True)[1].max()) / count
    margin = STANDARD_ERRORS * math.sqrt(chance * (1 - chance) / count)
    return Check.at_most(
        "clusters.before",
        "Section 5: without a prefix, attention outputs do not tell the task of a sample.",
        cross_validated_accuracy(plain, tasks.cpu(), torch.arange(count), folds),
        chance + margin,
        chance=chance,
        tasks=kinds,
        samples=count,
        folds=folds,
    )


def _after(plain: Tensor, moved: Tensor, folds: int, least: float) -> Check:
    accuracy, details = _by_prefix(plain, moved, folds)
    return Check.at_least(
        "clusters.after",
        "Section 5: under prefixes, attention outputs fall into one cluster a prefix.",
        accuracy,
        least,
        **details,
    )


def _by_prefix(plain: Tensor, moved: Tensor, folds: int) -> tuple[float, dict[str, float]]:
    """Return the accuracy of predicting the prefix, and details."""
    kinds, count = moved.shape[:2]
    labels = torch.arange(kinds).repeat_interleave(count)
    inputs = torch.arange(count).repeat(kinds)
    accuracy = cross_validated_accuracy(moved.flatten(0, 1), labels, inputs, folds)
    return accuracy, {
        "chance": 1 / kinds,
        "prefixes": kinds,
        "samples": count,
        "folds": folds,
        "displacement_cosine": displacement_cosine(plain, moved),
    }


def _check_sizes(prefixes: int, samples: int, folds: int) -> None:
    if prefixes < 2:
        raise AdaptlabError(f"{prefixes} prefixes make no clusters to tell apart; give 2 or more.")
    if not 2 <= folds <= samples:
        raise AdaptlabError(
            f"{samples} samples cannot be held out in {folds} folds; give between 2 folds and one "
            "a sample."
        )
