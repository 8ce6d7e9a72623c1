"""The forward pass of the theory's transformer.

Written for clarity, not speed: virtual tokens are carried through the batch, and all positions
are computed in every layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine import grouped, sites
from adaptlab.engine.attachments import Attachments
from adaptlab.engine.dropout import TrainingStep
from adaptlab.engine.plugins import ENGINE_FAMILIES, PatternRecorder
from adaptlab.families.formal import AttentionLayer, Formal

EVERY_ROW = slice(None)
KeysValues = tuple[Tensor, Tensor]  # [R, B, P, all heads' keys], [R, B, P, all heads' values]


@ENGINE_FAMILIES.register("formal")
def forward(
    family: Formal,
    weights: Mapping[str, Tensor],
    tokens: Tensor,
    attachments: Attachments,
    rows: slice,
    recorder: PatternRecorder | None = None,
    training: TrainingStep | None = None,
) -> Tensor:
    """Logits [R, B, rows, V] for tokens [R, B, T]; this family has no dropout."""
    groups = (len(weight) for weight in weights.values())
    tokens = grouped.lifted(tokens, max((attachments.replicates, *groups)))
    prompt = attachments.prompt
    virtual = 0 if prompt is None else prompt.shape[1]
    model = _Model(
        family, {**weights, **attachments.weights}, attachments, recorder, tokens.shape[1], virtual
    )
    x = model.embedded(tokens)
    if prompt is not None:
        x = torch.cat([model.for_samples(prompt), x], 2)
    for index, layer in enumerate(family.stack):
        if isinstance(layer, AttentionLayer):
            x = model.attention(index, layer, x)
        else:
            x = model.linear(f"blocks.{index}.{layer.kind}", x)
            x = functional.relu(x) if layer.kind == "relu" else x
    return model.linear("unembed", x[:, :, virtual:][:, :, rows])


@dataclass(frozen=True)
class _Model:
    """`samples` is B, `virtual` the number of virtual tokens before the content."""

    family: Formal
    weights: Mapping[str, Tensor]
    attachments: Attachments
    recorder: PatternRecorder | None
    samples: int
    virtual: int

    def embedded(self, tokens: Tensor) -> Tensor:
        """Embeddings and one-hot position codes [R, B, T, C] of tokens [R, B, T]."""
        x = grouped.embedding(tokens, self.weights["embed.weight"])
        first, codes = self.family.reserved_positions, self.family.codes()
        positions = torch.eye(codes, dtype=x.dtype, device=x.device)[first:][: tokens.shape[-1]]
        return torch.cat([x, positions.expand(*tokens.shape, codes)], -1)

    def linear(self, site: str, x: Tensor) -> Tensor:
        """The output of a linear site, with what the method hangs onto it."""
        return sites.linear(self.weights, self.attachments, site, x)

    def for_samples(self, rows: Tensor) -> Tensor:
        """Learned rows [R, P, C] for every sample, [R, B, P, C]."""
        return rows.unsqueeze(1).expand(-1, self.samples, -1, -1)

    def attention(self, index: int, layer: AttentionLayer, x: Tensor) -> Tensor:
        """Σ_h A^h x W_V^h at all positions of x [R, B, N, C], virtual tokens first."""
        name = f"blocks.{index}.attn"
        learned = self.learned(name)
        count = sum(keys.shape[2] for keys, _ in learned)
        pairs = [*learned, self.keys_values(name, x)]
        keys, values = torch.cat([k for k, _ in pairs], 2), torch.cat([v for _, v in pairs], 2)
        scores = self.scores(layer, self.linear(f"{name}.q", x), keys)
        scores = scores.masked_fill(self.hidden(name, x.shape[2], count, x), -torch.inf)
        pattern = scores.softmax(-1)  # R, B, H, N, learned + N
        heads = len(layer.heads)
        gathered = pattern @ values.unflatten(-1, (heads, -1)).transpose(2, 3)
        mixed = self.mixed(name, gathered.transpose(2, 3).flatten(-2))
        if self.recorder is not None:
            relative = scores[..., self.virtual :, count + self.virtual :].softmax(-1)
            place = [i for i, _ in self.family.attention_layers()].index(index)
            self.recorder.record(place, pattern[..., self.virtual :, :], relative)
        return mixed.unflatten(-1, (heads, -1)).sum(-2)

    def scores(self, layer: AttentionLayer, queries: Tensor, keys: Tensor) -> Tensor:
        """T/√k · q·k for every head, [R, B, H, N, M]; heads may differ in k."""
        sizes = [head.key_size for head in layer.heads]
        parts = zip(sizes, queries.split(sizes, -1), keys.split(sizes, -1), strict=True)
        sharpness = self.family.inverse_temperature
        return torch.stack(
            [(sharpness * size**-0.5) * q @ k.transpose(-1, -2) for size, q, k in parts], 2
        )

    def learned(self, name: str) -> list[KeysValues]:
        """The keys and values that the method adds in a layer, those of a suffix first."""
        site, found = f"{name}.input", list[KeysValues]()
        for several in (self.attachments.suffixes, self.attachments.attention_inputs):
            if (rows := several.get(site)) is not None:
                found.append(self.keys_values(name, self.for_samples(rows)))
        if (pair := self.attachments.keys_values.get(f"{name}.kv")) is not None:
            found.append((self.for_samples(pair[0]), self.for_samples(pair[1])))
        return found

    def keys_values(self, name: str, x: Tensor) -> KeysValues:
        """Keys and values of all heads for x [R, B, N, C]."""
        return self.linear(f"{name}.k", x), self.linear(f"{name}.v", x)

    def hidden(self, name: str, length: int, learned: int, like: Tensor) -> Tensor:
        """Which of the learned keys and the `length` others a position may not see, [N, M]."""
        blocked = torch.zeros(length, learned + length, dtype=torch.bool, device=like.device)
        if self.family.attention == "causal":
            blocked[:, learned:] = torch.ones_like(blocked[:, learned:]).triu(1)
        suffix = self.attachments.suffixes.get(f"{name}.input")
        if suffix is not None:
            blocked[: self.virtual + self.attachments.answer_start, : suffix.shape[1]] = True
        return blocked

    def mixed(self, name: str, gathered: Tensor) -> Tensor:
        """What content positions gathered [R, B, N, H·D], as the method changes it."""
        mix = self.attachments.mixes.get(f"{name}.mix")
        if mix is None:
            return gathered
        content = mix(gathered[:, :, self.virtual :], EVERY_ROW)
        return torch.cat([gathered[:, :, : self.virtual], content], 2)
