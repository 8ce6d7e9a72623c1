"""The identities of the theory on one base model, all together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.kernels.counter import random_bits, stream
from adaptlab.engine.models.attachments import Attachments
from adaptlab.families.formal import AttentionLayer, Formal, Head
from adaptlab.methods.lora import Lora
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.theory.check import Check, TheoryReport
from adaptlab.theory.clusters import prefix_clusters
from adaptlab.theory.equations import equations_of, queries_break_equation_6
from adaptlab.theory.observation import FrozenBase, observe, random_attachments, random_base
from adaptlab.theory.prefix_effect import prefix_effects
from adaptlab.theory.rotation import plane_rotation, rotation_on_a_sphere, sphere_points
from adaptlab.theory.second_layer import follows_directly, four_terms
from adaptlab.theory.span import attention_over_prefix, span_of

DIMENSIONS = 8
ANGLES = (0.5, 1.0, 1.5)
"""Rotation angles in radians, in three of the four planes of eight dimensions."""

FRAMES = 8
TWO_LAYERS = Formal(
    width=8,
    stack=(
        AttentionLayer(heads=(Head(key_size=6, value_size=10),)),
        AttentionLayer(heads=(Head(key_size=6, value_size=10),)),
    ),
    vocabulary=6,
    context=7,
)
"""The two-layer model whose scores are decomposed if the base has no two such layers."""


@dataclass(frozen=True)
class TrainedPrefixes:
    """Prefixes trained on one base, one per task.

    `tasks` [N] is the true task of each sample, and `position` the last of the question.
    """

    prefixes: Sequence[Attachments]
    tasks: Tensor
    position: int


def identities(
    base: FrozenBase,
    tokens: Tensor,
    *,
    lengths: Sequence[int] = (1, 3),
    trained: TrainedPrefixes | None = None,
    seed: int = 0,
) -> TheoryReport:
    """Check every identity of the theory on a base, for tokens [R, B, T].

    Always checked: random prefixes of the given `lengths`, a random rank-1 LoRA on queries, the
    four terms of a second layer (of a random formal model if the base has none) and the rotation of
    a sphere. With `trained` prefixes: the same identities, their attention and their clusters.
    """
    checks = [
        *_of_random_prefixes(base, tokens, lengths, seed),
        _of_queries(base, tokens, seed),
        _of_second_layer(base, tokens, max(lengths), seed),
        *rotation_on_a_sphere(
            plane_rotation(DIMENSIONS, ANGLES, seed), sphere_points(DIMENSIONS, FRAMES, seed), seed
        ),
    ]
    if trained is not None:
        checks += _of_trained_prefixes(base, tokens, trained)
    return TheoryReport(checks=tuple(checks))


def _of_random_prefixes(
    base: FrozenBase, tokens: Tensor, lengths: Sequence[int], seed: int
) -> Iterator[Check]:
    for length in lengths:
        prefix = random_attachments(base, PrefixTuning(length=length), seed)
        yield from _of_prefix(base, tokens, prefix, f"random-{length}")


def _of_prefix(
    base: FrozenBase, tokens: Tensor, prefix: Attachments, label: str
) -> Iterator[Check]:
    """Check both equations and, if it could fail, the span."""
    effects = prefix_effects(base, tokens, prefix)
    for check in equations_of(effects):
        yield _labelled(check, label)
    dimensions = min(effect.after.gathered.shape[-1] for effect in effects)
    samples = tokens.shape[1] * tokens.shape[2]
    if max(effect.after.learned for effect in effects) < min(dimensions, samples):
        yield _labelled(span_of(effects), label)


def _of_queries(base: FrozenBase, tokens: Tensor, seed: int) -> Check:
    updated = random_attachments(base, Lora(rank=1, sites=("attn.q",)), seed)
    return queries_break_equation_6(base, tokens, updated)


def _of_second_layer(base: FrozenBase, tokens: Tensor, length: int, seed: int) -> Check:
    if not follows_directly(base):
        base = random_base(TWO_LAYERS, seed, spread=0.6)
        tokens = _some_tokens(TWO_LAYERS, seed)
    prefix = random_attachments(base, PrefixTuning(length=length), seed)
    return four_terms(base, tokens, prefix)


def _of_trained_prefixes(
    base: FrozenBase, tokens: Tensor, trained: TrainedPrefixes
) -> Iterator[Check]:
    for index, prefix in enumerate(trained.prefixes):
        yield from _of_prefix(base, tokens, prefix, f"trained-{index}")
        if min(layer.learned for layer in observe(base, tokens, prefix)) > 1:
            yield _labelled(attention_over_prefix(base, tokens, prefix), f"trained-{index}")
    if len(trained.prefixes) > 1:
        yield from prefix_clusters(base, tokens, trained.tasks, trained.prefixes, trained.position)


def _labelled(check: Check, label: str) -> Check:
    return check.model_copy(update={"name": f"{check.name}.{label}"})


def _some_tokens(family: Formal, seed: int, samples: int = 8) -> Tensor:
    """Random tokens [1, samples, context]."""
    assert isinstance(family.vocabulary, int)
    assert isinstance(family.context, int)
    cells = torch.arange(samples * family.context)
    bits = random_bits(torch.tensor(stream("theory/tokens")), torch.tensor(seed), cells)
    return (bits % family.vocabulary).view(1, samples, family.context)
