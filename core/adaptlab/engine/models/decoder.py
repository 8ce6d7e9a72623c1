"""The forward pass of decoders.

Learned positions are computed once per replicate. Under a causal mask they never attend to content.
So a prefix or soft prompt is a separate stream ([R, 1, P, C], no sample axis), and every content
position attends to its keys and values. Without the mask virtual tokens attend to content, and
their stream has the sample axis.

Pads are virtual tokens that are not learned: token 0 at separate positions before the content. A
soft prompt and the rows of a prefix replace them.

Content always has positions 0, 1, … With absolute positions, learned vectors get no position added.
With rotary positions, where only distances count, learned rows are placed right before content.
Directly learned keys follow `peft`, where the learned positions come first: relative to the
content, all of them are as many positions before it as there are learned ones.

A suffix is learned rows after the question. Question positions do not attend to it, except the
last, which produces the first answer token; answer positions do. With rotary positions its last row
has the position of the question's last token, and the others precede it.

The virtual tokens of a late prompt are placed and attended to like a suffix. They attend to the
question up to its last token (without the mask, to all content), so their stream always has the
sample axis. The last position of the question reads them in the next layer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels import grouped
from adaptlab.engine.kernels.activations import gelu
from adaptlab.engine.kernels.fused_attention import QueryPlace, fused_attention
from adaptlab.engine.kernels.fused_products import (
    LinearWeights,
    MlpWeights,
    NormWeights,
    fused_layers,
    fused_linear,
    fused_mlp,
)
from adaptlab.engine.models import recomputing, sites
from adaptlab.engine.models.attachments import (
    NOTHING_ATTACHED,
    Attachments,
    AttentionRead,
    diluted,
)
from adaptlab.engine.models.attention import (
    EVERY_ROW,
    KeysValues,
    Stream,
    by_group,
    causal_mask,
    for_samples,
    joined,
    until,
)
from adaptlab.engine.models.dropout import TrainingStep, dropped, masks_of
from adaptlab.engine.models.key_cache import Begun, KeyCache, Read, cached
from adaptlab.engine.models.rotary import Rotary, RowTurns
from adaptlab.engine.plugins import (
    ENGINE_BEGINNINGS,
    ENGINE_FAMILIES,
    ENGINE_TOKEN_STATES,
    Beginning,
    Forward,
    PatternRecorder,
    TokenStates,
)
from adaptlab.engine.tensors import Float, Int
from adaptlab.plugins.decoder import Attention
from adaptlab.plugins.family import Family

F = TypeVar("F", bound=Family)

ITEMS_PER_TOKEN = 2
"""Items per token of the vocabulary from which the first layer is computed once per token."""

Norm = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""From x [R, ..., C], scale [G, C] and shift [G', C], if the model has one, to normal x."""

Hidden = Callable[[Callable[[str], Tensor]], Tensor]
"""From the outputs of an MLP's first linear parts, by name, to its hidden features."""


@dataclass(frozen=True)
class LayerNorm:
    """Layer norm with learned scales and shifts."""

    epsilon: float = 1e-5

    def __call__(
        self,
        x: Float[Tensor, "A *N C"],
        scale: Float[Tensor, "G C"],
        shift: Float[Tensor, "G2 C"] | None,
    ) -> Float[Tensor, "R *N C"]:
        """Normalise the last axis of x, then scale and shift it."""
        return grouped.layer_norm(x, scale, shift, self.epsilon)


def gelu_hidden(part: Callable[[str], Tensor]) -> Tensor:
    """gelu(W_up x) in the tanh form of GPT-2."""
    return gelu(part("up"))


def swiglu_hidden(part: Callable[[str], Tensor]) -> Tensor:
    """silu(W_gate x) ⊙ W_up x (Shazeer 2020)."""
    return functional.silu(part("gate")) * part("up")


@dataclass(frozen=True)
class Decoder:
    """A decoder family; the rest is in the weights and their names.

    H heads of queries share K = `key_value_heads` of keys and values evenly. `frequencies` of
    rotary positions are in radians per position; None for a model without them.
    `dropout` is a probability, `pads` a number of positions.
    """

    layers: int
    heads: int
    key_value_heads: int
    norm: Norm
    hidden: Hidden
    attention_norm: bool = True
    frequencies: tuple[float, ...] | None = None
    attention: Attention = "causal"
    dropout: float = 0.0
    pads: int = 0


def decoding(name: str) -> Callable[[Callable[[F], Decoder]], Callable[[F], Decoder]]:
    """Return a decorator that registers a family.

    It decorates a function that describes the family's decoder.
    """

    def register(describe: Callable[[F], Decoder]) -> Callable[[F], Decoder]:
        ENGINE_FAMILIES.register(name)(_forward(describe))
        ENGINE_TOKEN_STATES.register(name)(_token_states(describe))
        ENGINE_BEGINNINGS.register(name)(_beginning(describe))
        return describe

    return register


def _forward(describe: Callable[[F], Decoder]) -> Forward:
    def forward(
        family: F,
        weights: Mapping[str, Tensor],
        tokens: Tensor,
        attachments: Attachments,
        rows: slice,
        recorder: PatternRecorder | None = None,
        training: TrainingStep | None = None,
    ) -> Tensor:
        return decode(describe(family), weights, tokens, attachments, rows, recorder, training)

    return forward


def _token_states(describe: Callable[[F], Decoder]) -> TokenStates:
    def states(family: F, weights: Mapping[str, Tensor], embeddings: Tensor) -> dict[str, Tensor]:
        return read_tokens(describe(family), weights, embeddings)

    return states


def _beginning(describe: Callable[[F], Decoder]) -> Beginning:
    def begin(
        family: F,
        weights: Mapping[str, Tensor],
        tokens: Tensor,
        attachments: Attachments,
        rows: slice,
        lengths: Tensor,
        room: int,
    ) -> Begun | None:
        return begun(describe(family), weights, tokens, attachments, rows, lengths, room)

    return begin


def begun(
    decoder: Decoder,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    tokens: Int[Tensor, "A B T"],
    attachments: Attachments,
    rows: slice,
    lengths: Int[Tensor, "A B"],
    room: int,
) -> Begun | None:
    """Read tokens, and keep what attention reads; see `plugins.Beginning`."""
    if decoder.attention != "causal" or attachments.label_scales or attachments.queries:
        return None
    reads: list[Read] = []
    logits = decode(decoder, weights, tokens, attachments, rows, None, None, reads)
    cache = cached(lengths, room, len(logits), reads)
    adapted = attachments.adapted(weights)
    rotary = _rotary(decoder, 0, room, adapted)
    attached = replace(attachments, answer_rows=None)
    model = _Model(decoder, adapted, attached, None, rotary, cache=cache)
    return Begun(logits, cache, model.next_logits)


def decode(
    decoder: Decoder,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    tokens: Int[Tensor, "A B T"],
    attachments: Attachments,
    rows: slice,
    recorder: PatternRecorder | None,
    training: TrainingStep | None,
    reads: list[Read] | None = None,
) -> Float[Tensor, "R B Q V"]:
    """Return logits at the given rows; see `plugins.Forward`.

    `reads` receives what the attention of each layer has read.
    """
    adapted = attachments.adapted(weights)
    before = _longest_learned(attachments)
    rotary = _rotary(decoder, -before, tokens.shape[2], adapted)
    model = _Model(decoder, adapted, attachments, recorder, rotary, training, reads)
    kept = [EVERY_ROW] * (decoder.layers - 1) + [rows]
    again = attachments.recomputes
    if decoder.attention == "none":
        x = model.embedded(tokens)
        for layer, going_on in enumerate(kept):
            after = partial(model.after_mlp, layer, length=x.shape[2], rows=going_on)
            x = recomputing.block(after, x[:, :, going_on], again=again)
        return model.unembedded(x)
    prompt, late = model.before_content(tokens), model.after_question(tokens)

    def block(
        layer: int, x: Tensor | None, prompt: Tensor | None, late: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        rows = kept[layer]
        content = model.first(tokens, rows) if x is None else model.stream(layer, x, 0, rows)
        return model.block(layer, content, prompt, late)

    x = None
    for layer in range(decoder.layers):
        x, prompt, late = recomputing.block(block, layer, x, prompt, late, again=again)
    assert x is not None
    return model.unembedded(x)


def _rotary(
    decoder: Decoder, start: int, stop: int, weights: Mapping[str, Tensor]
) -> Rotary | None:
    """Return the rotations of positions; None without rotary positions."""
    if decoder.frequencies is None:
        return None
    return Rotary.over(start, stop, decoder.frequencies, weights["embed.weight"])


def read_tokens(
    decoder: Decoder,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    embeddings: Float[Tensor, "G P C"],
) -> dict[str, Float[Tensor, "G P _"]]:
    """Return what attention reads of virtual tokens.

    See `plugins.TokenStates`.
    """
    rotary = None
    if decoder.frequencies is not None:
        rotary = Rotary.over(0, embeddings.shape[1], decoder.frequencies, embeddings)
    model = _Model(decoder, weights, NOTHING_ATTACHED, None, rotary)
    states: dict[str, Tensor] = {}
    x = embeddings.unsqueeze(1)
    for layer in range(decoder.layers):
        name, virtual = f"blocks.{layer}.attn", model.stream(layer, x, 0, None)
        keys, values = (part.transpose(2, 3).flatten(-2) for part in virtual.own)
        for part, state in (("input", x), ("kv.keys", keys), ("kv.values", values)):
            states[f"{name}.{part}"] = state.squeeze(1)
        x = model.after(layer, virtual, [])
    return states


def _longest_learned(attachments: Attachments) -> int:
    """Return an upper bound on the learned positions of any layer."""
    prompts = (attachments.prompt, attachments.late_prompt)
    virtual = sum(prompt.shape[1] for prompt in prompts if prompt is not None)
    rows = max((r.shape[1] for r in attachments.attention_inputs.values()), default=0)
    suffix = max((r.shape[1] for r in attachments.suffixes.values()), default=0)
    direct = max((k.shape[1] for k, _ in attachments.keys_values.values()), default=0)
    return virtual + rows + suffix + direct


@dataclass(frozen=True)
class _Model:
    decoder: Decoder
    weights: Mapping[str, Tensor]
    attachments: Attachments
    recorder: PatternRecorder | None
    rotary: Rotary | RowTurns | None
    training: TrainingStep | None = None
    reads: list[Read] | None = None
    cache: KeyCache | None = None

    @property
    def answer_start(self) -> int:
        """The position that produces the first answer token."""
        return self.attachments.answer_start

    def embedded(self, tokens: Int[Tensor, "A B T"]) -> Float[Tensor, "R B T C"]:
        """Return the input of the first layer for tokens."""
        replicates, _, length = tokens.shape
        x = grouped.embedding(tokens, self.weights["embed.weight"])
        if "positions.weight" in self.weights:
            places = self.weights["positions.weight"][:, self.decoder.pads :]
            x = grouped.plus(x, grouped.positions(places, replicates, length))
        return self.dropped("embed", x, length, EVERY_ROW)

    def unembedded(self, x: Float[Tensor, "A B Q C"]) -> Float[Tensor, "R B M V"]:
        """Return the logits for the output of the last layer."""
        x = grouped.picked(x, self.attachments.answer_rows)
        norm, head = self.norm_weights("final_norm"), self.weights.get("unembed.weight")
        if norm is not None and head is not None and not self.attachments.changes("unembed"):
            logits = fused_linear(x, head, self.weights.get("unembed.bias"), norm)
            if logits is not None:
                return logits
        return self.linear("unembed", self.norm("final_norm", x))

    @property
    def is_by_item(self) -> bool:
        """Return True if items share nothing: with dropout, or a recorder."""
        drops = self.training is not None and self.decoder.dropout > 0
        return drops or self.recorder is not None

    def first(self, tokens: Int[Tensor, "A B T"], rows: slice) -> Stream:
        """Return the content's stream in the first layer.

        There a position depends only on its token. If items outnumber tokens, the stream is
        computed once for every token at every position, and the items look theirs up.
        """
        vocabulary = self.weights["embed.weight"].shape[1]
        if self.is_by_item or tokens.shape[1] < ITEMS_PER_TOKEN * vocabulary:
            return self.stream(0, self.embedded(tokens), 0, rows)
        every = torch.arange(vocabulary, device=tokens.device).view(1, -1, 1)
        of_one = self.embedded(every.expand(-1, -1, tokens.shape[2]))
        return self.stream(0, of_one, 0, rows).of_tokens(tokens)

    def before_content(self, tokens: Int[Tensor, "A B T"]) -> Float[Tensor, "R B2 P C"] | None:
        """Return virtual tokens, or pads if nothing replaces them; B2 is 1 or B."""
        prompt, pads = self.attachments.prompt, self.decoder.pads
        if prompt is not None:
            prompt = prompt.unsqueeze(1)
        elif pads and not self.attachments.attention_inputs:
            places = grouped.positions(self.weights["positions.weight"], len(tokens), pads)
            zeros = torch.zeros_like(tokens[:, :1, :1]).expand(-1, -1, pads)
            prompt = grouped.embedding(zeros, self.weights["embed.weight"]) + places
        if prompt is None or self.decoder.attention == "causal":
            return prompt
        return prompt.expand(-1, tokens.shape[1], -1, -1)  # seen content differs by sample

    def after_question(self, tokens: Int[Tensor, "A B T"]) -> Float[Tensor, "R B P C"] | None:
        """Return the virtual tokens of a late prompt for every sample."""
        prompt = self.attachments.late_prompt
        return None if prompt is None else prompt.unsqueeze(1).expand(-1, tokens.shape[1], -1, -1)

    def block(
        self, layer: int, content: Stream, prompt: Tensor | None, late: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Apply one layer to content and virtual tokens [R, 1 or B, P, C]."""
        both = self.decoder.attention == "bidirectional"
        if both or late is not None:
            content = content.looked_up()
        count = 0 if prompt is None else prompt.shape[2]
        learned, suffix = self.learned_keys_values(layer, count), self.suffix(layer)
        if prompt is not None:
            virtual = self.stream(layer, prompt, -count, None)
            seen = [*for_samples(learned, content.x), content.own] if both else learned
            prompt = self.after(layer, virtual, seen)
            learned = [*learned, virtual.own]
        if both or late is not None:
            learned, suffix = (for_samples(each, content.x) for each in (learned, suffix))
        if late is not None:
            virtual = self.stream(layer, late, self.answer_start + 1 - late.shape[2], None)
            asked = content.own if both else until(self.answer_start + 1, content.own)
            late = self.after(layer, virtual, [*learned, asked])
            suffix = [*suffix, virtual.own]
        learned = [*learned, *suffix]  # of content only the answer sees what comes last
        if self.reads is not None:
            content = content.looked_up()
            self.reads.append(Read(content.own, learned))
        return self.after(layer, content, learned), prompt, late

    def stream(
        self, layer: int, x: Float[Tensor, "A B N C"], first: int, rows: slice | None
    ) -> Stream:
        """Return the stream of a layer's input x."""
        if (projected := self.projected(layer, x, rows or EVERY_ROW)) is not None:
            kept, keys, values, queries = projected
            own = self.turned(self.by_key_head(keys), first), self.by_key_head(values)
            queries = self.turned(self.by_head(queries), first, rows or EVERY_ROW)
            return Stream(kept, None, queries, own, first, rows)
        source, site = self.attention_norm(layer, x), f"blocks.{layer}.attn"
        own = self.keys_values(layer, source, first)
        source = source[:, :, rows or EVERY_ROW]
        queries = self.by_head(self.linear(f"{site}.q", source))
        queries = self.turned(queries, first, rows or EVERY_ROW)
        hooked = source if site in self.attachments.outputs else None
        x = x[:, :, rows or EVERY_ROW]
        return Stream(x, hooked, queries * queries.shape[-1] ** -0.5, own, first, rows)

    def projected(
        self, layer: int, x: Float[Tensor, "A B N C"], rows: slice
    ) -> tuple[Tensor, ...] | None:
        """Return what a layer reads of its input x, by one kernel.

        These are x at `rows`, keys, values, and scaled queries at `rows`. None if there is no
        kernel for it, or if a method changes one of them.
        """
        name, decoder = f"blocks.{layer}.attn", self.decoder
        sites = [f"{name}.{part}" for part in ("k", "v", "q")]
        norm = self.norm_weights(f"{name}.norm") if decoder.attention_norm else None
        if norm is None and decoder.attention_norm:
            return None
        if any(map(self.attachments.changes, (name, *sites))):
            return None
        layers: list[LinearWeights] = []
        for site in sites:
            weight = self.weights.get(f"{site}.weight")
            if weight is None:  # in four bits
                return None
            layers.append(LinearWeights(weight, self.weights.get(f"{site}.bias")))
        *of_all, queries = layers
        factor = (queries.weight.shape[1] // decoder.heads) ** -0.5
        queries = replace(queries, factor=factor, reads_some=True)
        return fused_layers(x, [*of_all, queries], norm, rows)

    def after(
        self, layer: int, stream: Stream, learned: list[KeysValues]
    ) -> Float[Tensor, "R B Q C"]:
        """Return the kept rows of a stream after attention and MLP."""
        name, rows = f"blocks.{layer}.attn", stream.rows or EVERY_ROW
        attended = self.linear(f"{name}.o", self.attend(layer, stream, learned))
        attended = self.dropped(name, attended, stream.length, rows)
        if stream.source is not None:
            attended = self.hooked(name, stream.source, attended)
        return self.after_mlp(layer, grouped.plus(stream.x, attended), stream.length, rows)

    def after_mlp(
        self, layer: int, x: Float[Tensor, "A B Q C"], length: int, rows: slice
    ) -> Float[Tensor, "R B Q C"]:
        """Apply the MLP to x, the given rows of a stream.

        The stream has `length` positions.
        """
        name = f"blocks.{layer}.mlp"
        drops = self.drops(length)
        weights = self.norm_weights(f"{name}.norm")
        if weights is not None and not self.attachments.changes(name):
            fused = self.fused_mlp(name, x, weights, adds=not drops)
            if fused is not None:
                return grouped.plus(x, self.dropped(name, fused, length, rows)) if drops else fused
        normal = self.norm(f"{name}.norm", x)
        mixed = self.dropped(name, self.mlp(name, normal), length, rows)
        return grouped.plus(x, self.hooked(name, normal, mixed))

    def mlp(self, name: str, x: Float[Tensor, "A B Q C"]) -> Float[Tensor, "R B Q C"]:
        """Return the output of the MLP called `name` for normal x."""
        if (fused := self.fused_mlp(name, x, None, adds=False)) is not None:
            return fused
        hidden = self.decoder.hidden(lambda part: self.linear(f"{name}.{part}", x))
        return self.linear(f"{name}.down", hidden)

    def fused_mlp(
        self, name: str, x: Float[Tensor, "A B Q C"], norm: NormWeights | None, *, adds: bool
    ) -> Float[Tensor, "A B Q C"] | None:
        """Return the output of an MLP with GELU by one kernel.

        None if there is none for it, or if a method changes it. See `fused_products.fused_mlp`.
        """
        sites = (f"{name}.up", f"{name}.down")
        if self.decoder.hidden is not gelu_hidden or any(map(self.attachments.changes, sites)):
            return None
        parts = [f"{site}.{part}" for site in sites for part in ("weight", "bias")]
        if any(part not in self.weights for part in parts):
            return None
        return fused_mlp(x, MlpWeights(*(self.weights[part] for part in parts)), norm, adds=adds)

    def norm_weights(self, name: str) -> NormWeights | None:
        """Return the weights of the layer norm called `name`, if it is one."""
        norm, shift = self.decoder.norm, self.weights.get(f"{name}.bias")
        if not isinstance(norm, LayerNorm) or shift is None:
            return None
        return NormWeights(self.weights[f"{name}.weight"], shift, norm.epsilon)

    def drops(self, length: int) -> bool:
        """Return True if a stream of `length` positions has dropout."""
        return self.training is not None and self.decoder.dropout > 0 and length > 0

    def dropped(self, name: str, x: Tensor, length: int, rows: slice) -> Tensor:
        """Apply dropout to x [R, B, ..., Q, C], rows of `length` positions.

        Outside training, and for virtual tokens and pads (length 0), x is unchanged.
        """
        if self.training is None or not self.drops(length):
            return x
        return dropped(x, self.decoder.dropout, self.training, name, length, rows)

    def attend(
        self, layer: int, stream: Stream, learned: list[KeysValues]
    ) -> Float[Tensor, "R B Q HD"]:
        """Attend to learned positions and the stream's own."""
        name, rows = f"blocks.{layer}.attn", stream.rows or EVERY_ROW
        if self.cache is not None:
            return self.mixed(name, self.read_on(self.cache, layer, stream), rows)
        if (fused := self.fused_attention(name, stream, learned)) is not None:
            return self.mixed(name, fused, rows)
        stream = stream.looked_up()
        queries, (keys, values), length = stream.queries, stream.own, stream.length
        scores = by_group(queries, keys.transpose(-1, -2))
        if self.decoder.attention == "causal":
            scores = scores + causal_mask(keys.shape[-2], rows, keys)
        if not learned:
            pattern = self.reweighted(name, stream, scores.softmax(-1))
            kept = self.dropped(f"{name}.pattern", pattern, length, rows)
            mixed, every = by_group(kept, values), scores
        else:
            learned_keys = joined([k for k, _ in learned], -2)
            learned_values = joined([v for _, v in learned], -2)
            learned_scores = by_group(queries, learned_keys.transpose(-1, -2))  # R, B, H, Q, P
            if stream.rows is not None:
                learned_scores = self.unless_ahead(layer, learned_scores, keys.shape[-2], rows)
            every, count = joined([learned_scores, scores], -1), learned_keys.shape[-2]
            pattern = self.reweighted(name, stream, every.softmax(-1), count)
            kept = self.dropped(f"{name}.pattern", pattern, length, rows)
            mixed = by_group(kept[..., :count], learned_values)
            mixed = grouped.plus(mixed, by_group(kept[..., count:], values))
        gathered = mixed.transpose(2, 3).flatten(-2)
        if stream.rows is None:
            return gathered
        gathered, pattern = self.reread(name, (queries, gathered, every), pattern)
        if self.recorder is not None:
            self.recorder.record(layer, pattern, scores.softmax(-1))
        return self.mixed(name, gathered, rows)

    def next_logits(self, tokens: Int[Tensor, "R C"]) -> Float[Tensor, "R C V"]:
        """Return the logits after one more token of each item in the cache."""
        cache = self.cache
        assert cache is not None
        places = cache.positions
        turns = self.rotary.at(places) if isinstance(self.rotary, Rotary) else None
        model = replace(self, rotary=turns)
        x = grouped.embedding(tokens.unsqueeze(-1), self.weights["embed.weight"])
        if (table := self.weights.get("positions.weight")) is not None:
            x = grouped.plus(x, grouped.embedding(places.unsqueeze(-1) + self.decoder.pads, table))
        for layer in range(self.decoder.layers):
            x = model.after(layer, model.stream(layer, x, 0, EVERY_ROW), [])
        cache.advance()
        return model.unembedded(x)[:, :, 0]

    def read_on(self, cache: KeyCache, layer: int, stream: Stream) -> Float[Tensor, "R C 1 HD"]:
        """Attend to what the cache has of each item, and to its next position."""
        queries, *own = (part.flatten(0, 1) for part in (stream.queries, *stream.own))
        mixed = cache.attend(layer, queries, (own[0], own[1]), scale=1.0)
        return mixed.flatten(-2).unflatten(0, stream.queries.shape[:2])

    def fused_attention(
        self, name: str, stream: Stream, learned: list[KeysValues]
    ) -> Float[Tensor, "R B Q HD"] | None:
        """Return what a stream of content reads, by one kernel.

        None if there is none for it, or if something reads or changes the pattern.
        """
        given, rows = self.attachments, stream.rows
        if rows is None or self.decoder.attention != "causal" or self.recorder is not None:
            return None
        if f"{name}.queries" in given.queries:
            return None
        if given.suffixes or given.late_prompt is not None or given.label_scales:
            return None
        first, _, step = rows.indices(stream.length)
        if step != 1:
            return None
        before = None
        if learned:
            before = joined([k for k, _ in learned], -2), joined([v for _, v in learned], -2)
        masks = None
        if self.training is not None and self.drops(stream.length):
            site = f"{name}.pattern"
            masks = masks_of(self.decoder.dropout, self.training, site, stream.length, rows)
        place = QueryPlace(stream.tokens, first, masks)
        return fused_attention(stream.queries, stream.own, before, place)

    def mixed(
        self, name: str, gathered: Float[Tensor, "G B Q HD"], rows: slice
    ) -> Float[Tensor, "R B Q HD"]:
        """Return what a layer's content has read, as a method changes it.

        A change belongs to each replicate, so groups become replicates.
        """
        mix = self.attachments.mixes.get(f"{name}.mix")
        if mix is None:
            return gathered
        at = rows if self.cache is None else self.cache.positions.unsqueeze(-1)
        return mix(grouped.lifted(gathered, self.attachments.replicates), at)

    def reread(
        self, name: str, read: tuple[Tensor, Tensor, Tensor], pattern: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return attention output and pattern as a hook of queries changes them.

        Queries, output and scores are those of the content's rows.
        """
        queries, gathered, scores = read
        hook = self.attachments.queries.get(f"{name}.queries")
        if hook is None:
            return gathered, pattern
        parts = (queries, gathered, scores.logsumexp(-1))
        of_all = (grouped.lifted(part, self.attachments.replicates) for part in parts)
        gathered, share = hook(AttentionRead(*of_all))
        return gathered, diluted(pattern, share)

    def reweighted(
        self, name: str, stream: Stream, pattern: Float[Tensor, "R B H Q K"], learned: int = 0
    ) -> Float[Tensor, "R B H Q K"]:
        """Return a pattern with the factors on label words of demonstrations.

        The `learned` positions, which come first, have none, and virtual tokens answer nothing.
        """
        if stream.rows is None:
            return pattern
        factors = self.attachments.label_factors(name, pattern.shape[-1] - learned, stream.rows)
        return (
            pattern if factors is None else pattern * functional.pad(factors, (learned, 0), value=1)
        )

    def learned_keys_values(self, layer: int, prompt: int) -> list[KeysValues]:
        """Return the learned keys and values before the virtual tokens."""
        name, before = f"blocks.{layer}.attn", prompt
        pairs: list[KeysValues] = []
        if (rows := self.attachments.attention_inputs.get(f"{name}.input")) is not None:
            before += rows.shape[1]
            source = self.attention_norm(layer, rows.unsqueeze(1))
            pairs.append(self.keys_values(layer, source, -before))
        if (pair := self.attachments.keys_values.get(f"{name}.kv")) is not None:
            before += pair[0].shape[1]
            keys, values = (self.by_key_head(part.unsqueeze(1)) for part in pair)
            pairs.append((self.turned(keys, -before, slice(1)), values))
        return pairs

    def suffix(self, layer: int) -> list[KeysValues]:
        """Return the keys and values of a suffix, which ends at `answer_start`."""
        rows = self.attachments.suffixes.get(f"blocks.{layer}.attn.input")
        if rows is None:
            return []
        source = self.attention_norm(layer, rows.unsqueeze(1))
        return [self.keys_values(layer, source, self.answer_start + 1 - rows.shape[1])]

    def unless_ahead(
        self, layer: int, scores: Float[Tensor, "R B H Q P"], length: int, rows: slice
    ) -> Float[Tensor, "R B H Q P"]:
        """Set scores of question positions with a suffix to −inf.

        These come last of the P learned positions.
        """
        suffix = self.attachments.suffixes.get(f"blocks.{layer}.attn.input")
        late = (suffix, self.attachments.late_prompt)
        count = sum(learned.shape[1] for learned in late if learned is not None)
        if not count:
            return scores
        query = torch.arange(length, device=scores.device)[rows, None]
        key = torch.arange(scores.shape[-1], device=scores.device)
        ahead = (query < self.answer_start) & (key >= len(key) - count)
        return scores.masked_fill(ahead, -torch.inf)

    def keys_values(self, layer: int, source: Float[Tensor, "A B N C"], first: int) -> KeysValues:
        """Return the keys and values of source, at `first` and later positions."""
        name = f"blocks.{layer}.attn"
        keys = self.turned(self.by_key_head(self.linear(f"{name}.k", source)), first)
        return keys, self.by_key_head(self.linear(f"{name}.v", source))

    def turned(self, x: Tensor, first: int, rows: slice = EVERY_ROW) -> Tensor:
        """Rotate x [R, B, heads, N, D] if the model has rotary positions."""
        return x if self.rotary is None else self.rotary.turned(x, first, rows)

    def linear(self, site: str, x: Tensor) -> Tensor:
        """Return the output of a linear site with its attachments."""
        return sites.linear(self.weights, self.attachments, site, x)

    def hooked(self, site: str, x: Tensor, y: Tensor) -> Tensor:
        """Return the output y of a site for input x with its attachments."""
        return sites.hooked(self.attachments, site, x, y)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """Apply the norm called `name`."""
        return self.decoder.norm(
            x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        )

    def attention_norm(self, layer: int, x: Tensor) -> Tensor:
        """Apply the norm before attention, if the model has one."""
        return self.norm(f"blocks.{layer}.attn.norm", x) if self.decoder.attention_norm else x

    def by_head(self, x: Float[Tensor, "R B N HD"]) -> Float[Tensor, "R B H N D"]:
        """Split queries into H heads."""
        return x.unflatten(-1, (self.decoder.heads, -1)).transpose(2, 3)

    def by_key_head(self, x: Float[Tensor, "R B N KD"]) -> Float[Tensor, "R B K N D"]:
        """Split keys or values into K heads."""
        return x.unflatten(-1, (self.decoder.key_value_heads, -1)).transpose(2, 3)
