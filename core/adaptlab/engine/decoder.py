"""The forward pass of causal decoders, with learned positions computed once a replicate.

Under a causal mask learned positions never see content, so a prefix or soft prompt is a stream
of its own ([R, 1, P, C], no sample axis) whose keys and values every content position may read.

Content always stands at positions 0, 1, … With absolute positions learned ones have none: a
learned vector needs none added. With rotary positions, where only distances count, learned rows
stand right before content; keys that are learned directly are those of a model in which the
learned positions come first, as in `peft`: seen from the content, all of them stand as many
positions before it as there are learned ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine import grouped
from adaptlab.engine.attachments import Attachments
from adaptlab.engine.plugins import PatternRecorder
from adaptlab.engine.rotary import Rotary

KeysValues = tuple[Tensor, Tensor]  # each R, B or 1, K heads, positions, D
EVERY_ROW = slice(None)

Norm = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""From x [R, ..., C], scale [G, C] and shift [G', C], if the model has one, to normal x."""

Hidden = Callable[[Callable[[str], Tensor]], Tensor]
"""From the outputs of an MLP's first linear parts, by name, to its hidden features."""


def gelu_hidden(part: Callable[[str], Tensor]) -> Tensor:
    """gelu(W_up x) in the tanh form of GPT-2."""
    return functional.gelu(part("up"), approximate="tanh")


def swiglu_hidden(part: Callable[[str], Tensor]) -> Tensor:
    """silu(W_gate x) ⊙ W_up x (Shazeer 2020)."""
    return functional.silu(part("gate")) * part("up")


@dataclass(frozen=True)
class Decoder:
    """Where decoder families differ; the rest is in the weights and their names.

    H heads of queries share K = `key_value_heads` of keys and values evenly. `frequencies` are
    those of rotary positions, in radians a position; None for a model without.
    """

    layers: int
    heads: int
    key_value_heads: int
    norm: Norm
    hidden: Hidden
    attention_norm: bool = True
    frequencies: tuple[float, ...] | None = None


def decode(
    decoder: Decoder,
    weights: Mapping[str, Tensor],
    tokens: Tensor,
    attachments: Attachments,
    rows: slice,
    recorder: PatternRecorder | None,
) -> Tensor:
    """Logits [R, B, rows, V] for tokens [R, B, T]; see `adaptlab.engine.plugins.Forward`."""
    adapted = {**weights, **attachments.weights}
    adapted.setdefault("unembed.weight", adapted["embed.weight"])  # a tied head
    replicates, _, length = tokens.shape
    x = grouped.embedding(tokens, adapted["embed.weight"])
    if "positions.weight" in adapted:
        x = x + grouped.positions(adapted["positions.weight"], replicates, length)
    rotary = None
    if decoder.frequencies is not None:
        before = _longest_learned(attachments)
        rotary = Rotary.over(-before, length, decoder.frequencies, x)
    model = _Model(decoder, adapted, attachments, recorder, rotary)
    prompt = None if attachments.prompt is None else attachments.prompt.unsqueeze(1)
    for layer in range(decoder.layers):
        last = layer == decoder.layers - 1
        x, prompt = model.block(layer, x, prompt, rows if last else EVERY_ROW)
    return model.linear("unembed", model.norm("final_norm", x))


def _longest_learned(attachments: Attachments) -> int:
    """At least as many positions as are learned in any layer."""
    prompt = 0 if attachments.prompt is None else attachments.prompt.shape[1]
    rows = max((r.shape[1] for r in attachments.attention_inputs.values()), default=0)
    return prompt + rows + max((k.shape[1] for k, _ in attachments.keys_values.values()), default=0)


@dataclass(frozen=True)
class _Stream:
    """What passes through one layer: x [R, B, N, C] at the positions from `first` on.

    `source` is x after the norm, `own` its keys and values. `rows` are the positions to go on
    with, None for virtual tokens, which are neither cut nor recorded.
    """

    x: Tensor
    source: Tensor
    own: KeysValues
    first: int
    rows: slice | None


@dataclass(frozen=True)
class _Model:
    decoder: Decoder
    weights: Mapping[str, Tensor]
    attachments: Attachments
    recorder: PatternRecorder | None
    rotary: Rotary | None

    def block(
        self, layer: int, x: Tensor, prompt: Tensor | None, rows: slice
    ) -> tuple[Tensor, Tensor | None]:
        """One layer over content x [R, B, T, C] and virtual tokens [R, 1, P, C]."""
        count = 0 if prompt is None else prompt.shape[2]
        learned = self.learned_keys_values(layer, count)
        if prompt is not None:
            virtual = self.stream(layer, prompt, -count, None)
            prompt = self.after(layer, virtual, learned)
            learned = [*learned, virtual.own]
        return self.after(layer, self.stream(layer, x, 0, rows), learned), prompt

    def stream(self, layer: int, x: Tensor, first: int, rows: slice | None) -> _Stream:
        """The stream of x [R, B, N, C] as the layer finds it."""
        source = self.attention_norm(layer, x)
        return _Stream(x, source, self.keys_values(layer, source, first), first, rows)

    def after(self, layer: int, stream: _Stream, learned: list[KeysValues]) -> Tensor:
        """The rows of a stream [R, B, Q, C] after attention and MLP."""
        name, rows = f"blocks.{layer}", stream.rows or EVERY_ROW
        source = stream.source[:, :, rows]
        attended = self.linear(f"{name}.attn.o", self.attend(layer, stream, learned))
        x = stream.x[:, :, rows] + self.hooked(f"{name}.attn", source, attended)
        normal = self.norm(f"{name}.mlp.norm", x)
        hidden = self.decoder.hidden(lambda part: self.linear(f"{name}.mlp.{part}", normal))
        hidden = self.linear(f"{name}.mlp.down", hidden)
        return x + self.hooked(f"{name}.mlp", normal, hidden)

    def attend(self, layer: int, stream: _Stream, learned: list[KeysValues]) -> Tensor:
        """Causal attention over learned positions and the stream's own; [R, B, Q, H·D]."""
        name, rows = f"blocks.{layer}.attn", stream.rows or EVERY_ROW
        queries = self.by_head(self.linear(f"{name}.q", stream.source[:, :, rows]))
        queries = self.turned(queries, stream.first, rows) * (queries.shape[-1] ** -0.5)
        keys, values = stream.own
        scores = _by_group(queries, keys.transpose(-1, -2))
        scores = scores + _causal_mask(keys.shape[-2], rows, keys)
        if not learned:
            pattern = scores.softmax(-1)
            mixed = _by_group(pattern, values)
        else:
            learned_keys = torch.cat([k for k, _ in learned], -2)
            learned_values = torch.cat([v for _, v in learned], -2)
            learned_scores = _by_group(queries, learned_keys.transpose(-1, -2))  # R, B, H, Q, P
            pattern = torch.cat([learned_scores, scores], -1).softmax(-1)
            count = learned_keys.shape[-2]
            mixed = _by_group(pattern[..., :count], learned_values)
            mixed = mixed + _by_group(pattern[..., count:], values)
        gathered = mixed.transpose(2, 3).flatten(-2)
        if stream.rows is None:
            return gathered
        if self.recorder is not None:
            self.recorder.record(layer, pattern, scores.softmax(-1))
        mix = self.attachments.mixes.get(f"{name}.mix")
        return gathered if mix is None else mix(gathered, rows)

    def learned_keys_values(self, layer: int, prompt: int) -> list[KeysValues]:
        """The keys and values that the method adds, before a prompt of so many virtual tokens."""
        name, before = f"blocks.{layer}.attn", prompt
        found: list[KeysValues] = []
        if (rows := self.attachments.attention_inputs.get(f"{name}.input")) is not None:
            before += rows.shape[1]
            source = self.attention_norm(layer, rows.unsqueeze(1))
            found.append(self.keys_values(layer, source, -before))
        if (pair := self.attachments.keys_values.get(f"{name}.kv")) is not None:
            before += pair[0].shape[1]
            keys, values = (self.by_key_head(part.unsqueeze(1)) for part in pair)
            found.append((self.turned(keys, -before, slice(1)), values))
        return found

    def keys_values(self, layer: int, source: Tensor, first: int) -> KeysValues:
        """Keys and values of source [R, B, N, C], which stands at the positions from `first` on."""
        name = f"blocks.{layer}.attn"
        keys = self.turned(self.by_key_head(self.linear(f"{name}.k", source)), first)
        return keys, self.by_key_head(self.linear(f"{name}.v", source))

    def turned(self, x: Tensor, first: int, rows: slice = EVERY_ROW) -> Tensor:
        """Turn x [R, B, heads, N, D] to its positions, where the model has rotary ones."""
        return x if self.rotary is None else self.rotary.turned(x, first, rows)

    def linear(self, site: str, x: Tensor) -> Tensor:
        """The output of a linear site, with what the method hangs onto it."""
        change = self.attachments.inputs.get(site)
        x = x if change is None else change(x)
        y = grouped.linear(x, self.weights[f"{site}.weight"], self.weights.get(f"{site}.bias"))
        return self.hooked(site, x, y)

    def hooked(self, site: str, x: Tensor, y: Tensor) -> Tensor:
        """The output y of a site for its input x, as the method changes it."""
        hook = self.attachments.outputs.get(site)
        return y if hook is None else hook(x, y)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """The norm called `name`."""
        return self.decoder.norm(
            x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        )

    def attention_norm(self, layer: int, x: Tensor) -> Tensor:
        """The norm before attention, where the model has one."""
        return self.norm(f"blocks.{layer}.attn.norm", x) if self.decoder.attention_norm else x

    def by_head(self, x: Tensor) -> Tensor:
        """Split [R, B, N, H·D] into heads [R, B, H, N, D]."""
        return x.unflatten(-1, (self.decoder.heads, -1)).transpose(2, 3)

    def by_key_head(self, x: Tensor) -> Tensor:
        """Split keys or values [R, B, N, K·D] into their heads [R, B, K, N, D]."""
        return x.unflatten(-1, (self.decoder.key_value_heads, -1)).transpose(2, 3)


def _by_group(left: Tensor, right: Tensor) -> Tensor:
    """The products of left [R, B, H, Q, N] with right [R, B, K, N, M], of K heads that H share."""
    heads, groups, count = left.shape[2], right.shape[2], left.shape[3]
    if heads == groups:
        return left @ right
    stacked = left.unflatten(2, (groups, -1)).flatten(3, 4)  # R, B, K, H/K·Q, N
    return (stacked @ right).unflatten(3, (-1, count)).flatten(2, 3)


def _causal_mask(length: int, rows: slice, like: Tensor) -> Tensor:
    """0 where a query row may look, minus infinity where it may not; [Q, T]."""
    blocked = torch.full((length, length), -torch.inf, dtype=like.dtype, device=like.device)
    return blocked.triu(1)[rows]
