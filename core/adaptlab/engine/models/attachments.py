"""Attachments: a method's additions to the sites of a model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models.label_words import LabelWords
from adaptlab.engine.tensors import Float, Int
from adaptlab.plugins.shapes import HEAD_SITE

T = TypeVar("T")

OutputHook = Callable[[Tensor, Tensor], Tensor]
"""From the input [R, ..., I] and output [R, ..., O] of a site to its new output."""

ProductHook = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From the input [R, ..., I], product W x [R, ..., O] and weight W [G, O, I] of a linear site to
the product's replacement, before the bias is added."""

InputHook = Callable[[Tensor], Tensor]
"""From the input [R, ..., I] of a linear site to its new input."""

MixHook = Callable[[Tensor, slice | Tensor], Tensor]
"""From the attention output [R, B, Q, C] at the given content positions to its new value.

Where items have other positions, these are [R, B, Q].
"""


@dataclass(frozen=True)
class AttentionRead:
    """What the queries of a layer have read at content positions.

    `queries` are turned and scaled as attention scores them, and `gathered` is the attention output
    before W_O. `log_sums` are logarithms of the sums of the exponentials of all scores.
    """

    queries: Float[Tensor, "R B H Q D"]
    gathered: Float[Tensor, "R B Q HD"]
    log_sums: Float[Tensor, "R B H Q"]


QueryHook = Callable[[AttentionRead], tuple[Tensor, Tensor | None]]
"""From what queries have read to a new attention output [R, B, Q, HD].

Also the share [R, B, H, Q] of attention that it takes from all positions alike, None for nothing.
"""


@dataclass(frozen=True)
class Attachments:
    """Everything a method adds, by site.

    `weights` [R, ...] replace base tensors. `outputs` change the output of linear sites and
    sublayers, `products` the matrix product of a linear site, `inputs` its input, `mixes` the
    attention output before W_O, and `queries` it as well, earlier, from a layer's queries.
    `attention_inputs` are learned rows that pass through the layer's
    norm, W_K and W_V; `keys_values` are learned pairs [R, P, K]; `prompt` holds virtual tokens.

    `suffixes` are learned rows like `attention_inputs`, placed after the question. Content attends
    to them from position `answer_start` on, the one that produces the first answer token.
    `late_prompt` holds virtual tokens at the same place, which attend to the question.

    `answer_rows` are the rows whose logits are needed where items differ in length, counted from
    the first of the rows that are asked for; None if all of these are needed.

    `label_scales` [R, H, K] are logarithms of factors on what the rows that answer attend to the
    labels of K demonstrations, after the softmax; `label_words` are where these labels are.

    `read` is the number of tokens of each item without padding, where a head for classes or an
    encoder reads texts of different lengths; None elsewhere. `has_classes` if there is such a head.

    `replicates` is R. Shared activations may have fewer rows; hooks receive all R. With
    `recomputes`, blocks are computed again in the backward pass; see
    `adaptlab.engine.models.recomputing`.
    """

    weights: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    outputs: Mapping[str, OutputHook] = field(default_factory=dict[str, OutputHook])
    products: Mapping[str, ProductHook] = field(default_factory=dict[str, ProductHook])
    inputs: Mapping[str, InputHook] = field(default_factory=dict[str, InputHook])
    mixes: Mapping[str, MixHook] = field(default_factory=dict[str, MixHook])
    queries: Mapping[str, QueryHook] = field(default_factory=dict[str, QueryHook])
    attention_inputs: Mapping[str, Float[Tensor, "R P _"]] = field(
        default_factory=dict[str, Tensor]
    )
    keys_values: Mapping[str, tuple[Tensor, Tensor]] = field(
        default_factory=dict[str, tuple[Tensor, Tensor]]
    )
    prompt: Float[Tensor, "R P2 C"] | None = None
    suffixes: Mapping[str, Float[Tensor, "R P3 _"]] = field(default_factory=dict[str, Tensor])
    late_prompt: Float[Tensor, "R P4 C"] | None = None
    label_scales: Mapping[str, Float[Tensor, "R H K"]] = field(default_factory=dict[str, Tensor])
    label_words: LabelWords | None = None
    answer_start: int = 0
    answer_rows: Int[Tensor, "A B M"] | None = None
    read: Int[Tensor, "A B"] | None = None
    has_classes: bool = False
    replicates: int = 1
    recomputes: bool = False

    def label_factors(
        self, attention: str, length: int, rows: slice
    ) -> Float[Tensor, "R B H Q {length}"] | None:
        """Return the factors on a pattern over content, None if there are none."""
        scales = self.label_scales.get(f"{attention}.mix")
        if scales is None or self.label_words is None:
            return None
        return self.label_words.factors(scales, length, rows)

    def changes(self, site: str) -> bool:
        """Return True if a hook changes a linear site or a sublayer."""
        return any(site in hooks for hooks in (self.outputs, self.products, self.inputs))

    def changes_classes_only(self) -> bool:
        """Return True if nothing but a head for classes differs from the base."""
        others = (
            self.outputs, self.products, self.inputs, self.mixes, self.queries,
            self.attention_inputs, self.keys_values, self.suffixes, self.label_scales,
        )  # fmt: skip
        prompts = (self.prompt, self.late_prompt)
        return (
            self.has_classes
            and all(name.startswith(f"{HEAD_SITE}.") for name in self.weights)
            and not any(others)
            and all(prompt is None for prompt in prompts)
        )

    def adapted(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return base weights with their replacements.

        A tied head is the embedding.
        """
        replaced = {**weights, **self.weights}
        tied = {} if "unembed.weight" in replaced else {"unembed.weight": replaced["embed.weight"]}
        return {**tied, **replaced}


NOTHING_ATTACHED = Attachments()


def merged(several: Sequence[Attachments]) -> Attachments:
    """Merge attachments in order.

    Hooks of a site are chained, learned positions concatenated.

    If two replace the same base tensor, the later wins; no spec can request that.
    """
    return Attachments(
        weights=_joined((each.weights for each in several), lambda _, later: later),
        outputs=_joined((each.outputs for each in several), _output_chain),
        products=_joined((each.products for each in several), _product_chain),
        inputs=_joined((each.inputs for each in several), _input_chain),
        mixes=_joined((each.mixes for each in several), _mix_chain),
        queries=_joined((each.queries for each in several), _query_chain),
        attention_inputs=_joined((each.attention_inputs for each in several), _queue),
        keys_values=_joined(
            (each.keys_values for each in several),
            lambda a, b: (_queue(a[0], b[0]), _queue(a[1], b[1])),
        ),
        prompt=_queued(each.prompt for each in several),
        suffixes=_joined((each.suffixes for each in several), _queue),
        late_prompt=_queued(each.late_prompt for each in several),
    )


def _joined(maps: Iterable[Mapping[str, T]], join: Callable[[T, T], T]) -> dict[str, T]:
    entries: dict[str, T] = {}
    for mapping in maps:
        for site, entry in mapping.items():
            entries[site] = join(entries[site], entry) if site in entries else entry
    return entries


def _queue(first: Tensor, then: Tensor) -> Tensor:
    return torch.cat([first, then], 1)


def _queued(several: Iterable[Tensor | None]) -> Tensor | None:
    tensors = [tensor for tensor in several if tensor is not None]
    return torch.cat(tensors, 1) if tensors else None


def _output_chain(first: OutputHook, then: OutputHook) -> OutputHook:
    return lambda x, y: then(x, first(x, y))


def _product_chain(first: ProductHook, then: ProductHook) -> ProductHook:
    return lambda x, y, weight: then(x, first(x, y, weight), weight)


def _input_chain(first: InputHook, then: InputHook) -> InputHook:
    return lambda x: then(first(x))


def _mix_chain(first: MixHook, then: MixHook) -> MixHook:
    return lambda gathered, rows: then(first(gathered, rows), rows)


def _query_chain(first: QueryHook, then: QueryHook) -> QueryHook:
    def chained(read: AttentionRead) -> tuple[Tensor, Tensor | None]:
        gathered, share = first(read)
        gathered, more = then(replace(read, gathered=gathered))
        if share is None or more is None:
            return gathered, more if share is None else share
        return gathered, share + more - share * more

    return chained


def diluted(
    pattern: Float[Tensor, "A B H Q K"], share: Float[Tensor, "R B H Q"] | None
) -> Float[Tensor, "R B H Q K2"]:
    """Return a pattern with a share of attention before it, taken from all."""
    if share is None:
        return pattern
    first = share.unsqueeze(-1)
    return torch.cat([first, (1 - first) * grouped.lifted(pattern, len(first))], -1)
