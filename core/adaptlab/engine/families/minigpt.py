"""The forward pass of miniGPT, with learned positions computed once a replicate.

Under a causal mask learned positions never see content, so a prefix or soft prompt is a stream
of its own ([R, P, C], no sample axis) whose keys and values every content position may read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine import grouped
from adaptlab.engine.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_FAMILIES, PatternRecorder
from adaptlab.families.minigpt import MiniGPT

KeysValues = tuple[Tensor, Tensor]  # each R, P, C
EVERY_ROW = slice(None)


@ENGINE_FAMILIES.register("minigpt")
def forward(
    family: MiniGPT,
    weights: Mapping[str, Tensor],
    tokens: Tensor,
    attachments: Attachments,
    rows: slice,
    recorder: PatternRecorder | None = None,
) -> Tensor:
    """Logits [R, B, rows, V] for tokens [R, B, T]."""
    model = _Model(family, {**weights, **attachments.weights}, attachments, recorder)
    replicates, _, length = tokens.shape
    x = grouped.embedding(tokens, model.weights["embed.weight"])
    x = x + grouped.positions(model.weights["positions.weight"], replicates, length)
    prompt = attachments.prompt
    for layer in range(family.layers):
        last = layer == family.layers - 1
        x, prompt = model.block(layer, x, prompt, rows if last else EVERY_ROW)
    return model.linear("unembed", model.norm("final_norm", x))


@dataclass(frozen=True)
class _Model:
    family: MiniGPT
    weights: Mapping[str, Tensor]
    attachments: Attachments
    recorder: PatternRecorder | None

    def block(
        self, layer: int, x: Tensor, prompt: Tensor | None, rows: slice
    ) -> tuple[Tensor, Tensor | None]:
        """One layer over content x [R, B, T, C] and virtual tokens [R, P, C]."""
        learned = self.learned_keys_values(layer)
        if prompt is None:
            return self.stream(layer, x, learned, rows)[0], None
        virtual, (keys, values) = self.stream(layer, prompt.unsqueeze(1), learned, None)
        learned = [*learned, (keys.squeeze(1), values.squeeze(1))]
        return self.stream(layer, x, learned, rows)[0], virtual.squeeze(1)

    def stream(
        self, layer: int, x: Tensor, learned: list[KeysValues], rows: slice | None
    ) -> tuple[Tensor, KeysValues]:
        """The rows of x [R, B, T, C] after the layer, and the keys and values of all of x.

        `rows` is None for the stream of virtual tokens, which is neither cut nor recorded.
        """
        name = f"blocks.{layer}"
        source = self.attention_norm(layer, x)
        keys = self.linear(f"{name}.attn.k", source)
        values = self.linear(f"{name}.attn.v", source)
        kept = source[:, :, rows or EVERY_ROW]
        queries = self.linear(f"{name}.attn.q", kept)
        mixed = self.attend(layer, queries, (keys, values), learned, rows)
        attended = self.linear(f"{name}.attn.o", mixed)
        x = x[:, :, rows or EVERY_ROW] + self.hooked(f"{name}.attn", kept, attended)
        normal = self.norm(f"{name}.mlp.norm", x)
        hidden = functional.gelu(self.linear(f"{name}.mlp.up", normal), approximate="tanh")
        hidden = self.linear(f"{name}.mlp.down", hidden)
        return x + self.hooked(f"{name}.mlp", normal, hidden), (keys, values)

    def attend(
        self,
        layer: int,
        queries: Tensor,
        content: KeysValues,
        learned: list[KeysValues],
        rows: slice | None,
    ) -> Tensor:
        """Causal attention of queries [R, B, Q, C] over learned positions and content."""
        keys, values = (self.by_head(part) for part in content)  # R, B, H, T, D
        query = self.by_head(queries) * (keys.shape[-1] ** -0.5)
        scores = query @ keys.transpose(-1, -2) + _causal_mask(
            keys.shape[-2], rows or EVERY_ROW, keys
        )
        if not learned:
            pattern = scores.softmax(-1)
            mixed = pattern @ values
        else:
            learned_keys = self.by_head(torch.cat([k for k, _ in learned], 1).unsqueeze(1))
            learned_values = self.by_head(torch.cat([v for _, v in learned], 1).unsqueeze(1))
            learned_scores = query @ learned_keys.transpose(-1, -2)  # R, B, H, Q, P
            pattern = torch.cat([learned_scores, scores], -1).softmax(-1)
            count = learned_keys.shape[-2]
            mixed = pattern[..., :count] @ learned_values + pattern[..., count:] @ values
        gathered = mixed.transpose(2, 3).flatten(-2)
        if rows is None:
            return gathered
        if self.recorder is not None:
            self.recorder.record(layer, pattern, scores.softmax(-1))
        mix = self.attachments.mixes.get(f"blocks.{layer}.attn.mix")
        return gathered if mix is None else mix(gathered, rows)

    def learned_keys_values(self, layer: int) -> list[KeysValues]:
        """The keys and values [R, P, C] that the method adds to this layer."""
        found: list[KeysValues] = []
        rows = self.attachments.attention_inputs.get(f"blocks.{layer}.attn.input")
        if rows is not None:
            source = self.attention_norm(layer, rows)
            keys = self.linear(f"blocks.{layer}.attn.k", source)
            found.append((keys, self.linear(f"blocks.{layer}.attn.v", source)))
        pair = self.attachments.keys_values.get(f"blocks.{layer}.attn.kv")
        return found if pair is None else [*found, pair]

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
        """The layer norm called `name`."""
        return grouped.layer_norm(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def attention_norm(self, layer: int, x: Tensor) -> Tensor:
        """The norm before attention, where the model has one."""
        return self.norm(f"blocks.{layer}.attn.norm", x) if self.family.attention_norm else x

    def by_head(self, x: Tensor) -> Tensor:
        """Split [R, B, N, C] into heads [R, B, H, N, C/H]."""
        return x.unflatten(-1, (self.family.heads, -1)).transpose(2, 3)


def _causal_mask(length: int, rows: slice, like: Tensor) -> Tensor:
    """0 where a query row may look, minus infinity where it may not; [Q, T]."""
    blocked = torch.full((length, length), -torch.inf, dtype=like.dtype, device=like.device)
    return blocked.triu(1)[rows]
