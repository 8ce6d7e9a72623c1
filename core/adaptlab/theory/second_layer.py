"""The scores of a second layer in four terms, given a prefix."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.attachments import Attachments
from adaptlab.errors import AdaptlabError
from adaptlab.families.formal import AttentionLayer, Formal
from adaptlab.theory.check import Check, Detail
from adaptlab.theory.equations import ROUNDING
from adaptlab.theory.observation import Attention, FrozenBase, observe
from adaptlab.theory.prefix_effect import prefix_effects

TERMS = ("prefix_prefix", "content_prefix", "prefix_content", "content_content")
"""Query part, key part: α_iα_j μᵀHμ, (1-α_i)α_j t_iᵀHμ, α_i(1-α_j) μᵀHt_j, (1-α_i)(1-α_j)
t_iᵀHt_j, for one learned row and one head in the first layer."""


@dataclass(frozen=True)
class SecondLayerScores:
    """The `terms` by name, and the model's `scores`, [R, B, H, T, T].

    `seen` [T, T] marks the keys j that a query i may attend to.
    """

    terms: Mapping[str, Tensor]
    scores: Tensor
    seen: Tensor

    @property
    def missed(self) -> float:
        """The error of the terms' sum, relative to the largest score."""
        total = torch.stack(list(self.terms.values())).sum(0)
        return float((total - self.scores).abs().max() / self.scores.abs().max())

    def sizes(self) -> dict[str, float]:
        """Return the `size_…` of every term, a root mean square.

        `steering_…` is the same after subtracting each row's mean over its visible keys, which the
        softmax ignores.
        """
        sizes = {f"size_{name}": _size(term, self.seen) for name, term in self.terms.items()}
        steering = {
            f"steering_{name}": _size(_centred(term, self.seen), self.seen)
            for name, term in self.terms.items()
        }
        return sizes | steering


def second_layer_scores(
    base: FrozenBase, tokens: Tensor, attached: Attachments
) -> SecondLayerScores:
    """Decompose the second attention layer's scores (section 6.1).

    The scores are T/√k q·k.
    The first layer gives x_i = b_i + c_i, with the prefix's addition b_i = Σ_h Σ_m A^h_im W_V^h s_m
    and the rescaled content c_i = Σ_h (1 - α^h_i) t^h_i. So x_iᵀ H x_j has four terms, where
    H = W_Qᵀ W_K of the second layer. With one head in the first, the last is the pretrained score
    times (1 - α_i)(1 - α_j).

    Raises:
        AdaptlabError: unless the two layers of family `formal` have nothing between them.
    """
    second = _second_of_two(base)
    effect = prefix_effects(base, tokens, attached)[0]
    added = effect.expected_addition.sum(2)  # R, B, T, C
    content = ((1 - effect.taken) * effect.content).sum(2)
    parts = {"prefix": added, "content": content}
    weights = [base.weights[f"{base.layers[1]}.{part}.weight"] for part in "qk"]
    terms: dict[str, Tensor] = {}
    for name in TERMS:
        queries, keys = (
            grouped.linear(parts[part], weight, None)
            for part, weight in zip(name.split("_"), weights, strict=True)
        )
        terms[name] = _scores(base, second, queries, keys)
    seen = observe(base, tokens, attached)[1]
    scores = _scores(base, second, seen.queries, seen.keys)
    return SecondLayerScores(terms, scores, _visible(seen))


def four_terms(
    base: FrozenBase, tokens: Tensor, attached: Attachments, tolerance: float = ROUNDING
) -> Check:
    """Check that the four terms sum to the second layer's scores.

    The measured value is the largest difference, relative to the largest score.
    """
    decomposition = second_layer_scores(base, tokens, attached)
    return four_terms_of(decomposition.missed, tolerance, **decomposition.sizes())


def four_terms_of(missed: float, tolerance: float = ROUNDING, **details: Detail) -> Check:
    """Report the check of the four terms from the error of their sum."""
    return Check.at_most(
        "second-layer-four-terms",
        "Section 6.1: the second layer's scores are the sum of four terms, prefix or rescaled "
        "content on the side of the query and of the key.",
        missed,
        tolerance,
        **details,
    )


def follows_directly(base: FrozenBase) -> bool:
    """Return True if a formal base's first two attention layers are adjacent."""
    return base.family.attends_twice()


def _second_of_two(base: FrozenBase) -> AttentionLayer:
    if not isinstance(base.family, Formal) or not follows_directly(base):
        raise AdaptlabError(
            f"The four terms need two attention layers with nothing between them, which this "
            f"{base.family.name} lacks; give a `formal` base whose stack has two in a row."
        )
    return base.family.attention_layers()[1][1]


def _scores(base: FrozenBase, layer: AttentionLayer, queries: Tensor, keys: Tensor) -> Tensor:
    """Return T/√k q_i·k_j, [R, B, H, T, T], from all heads' q and k."""
    assert isinstance(base.family, Formal)
    sizes = [head.key_size for head in layer.heads]
    sharpness = base.family.inverse_temperature
    pairs = zip(sizes, queries.split(sizes, -1), keys.split(sizes, -1), strict=True)
    return torch.stack(
        [sharpness * size**-0.5 * (q @ k.transpose(-1, -2)) for size, q, k in pairs], 2
    )


def _visible(seen: Attention) -> Tensor:
    """Return a mask [T, T] of visible content keys: attention is not 0."""
    return seen.relative.flatten(0, 2).sum(0) > 0


def _size(term: Tensor, seen: Tensor) -> float:
    return float(term[..., seen].square().mean().sqrt())


def _centred(term: Tensor, seen: Tensor) -> Tensor:
    """Subtract from a term [..., T, T] each row's mean over its visible keys."""
    means = torch.where(seen, term, 0.0).sum(-1) / seen.sum(-1)
    return term - means.unsqueeze(-1)
