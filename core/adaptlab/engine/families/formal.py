"""The forward pass of the theory's transformer.

Written for clarity, not speed: virtual tokens are repeated for every sample. In the tensors they
come before the content, those of a late prompt first, whatever their positions. After the last
attention layer only the requested positions are computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels import grouped
from adaptlab.engine.models import sites
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.dropout import TrainingStep
from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_TOKEN_STATES, PatternRecorder
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.families.formal import AttentionLayer, Formal, Layer

EVERY_ROW = slice(None)
KeysValues = tuple[Tensor, Tensor]  # [R, B, P, all heads' keys], [R, B, P, all heads' values]


@ENGINE_FAMILIES.register("formal")
def forward(
    family: Formal,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    tokens: Int[Tensor, "A B T"],
    attachments: Attachments,
    rows: slice,
    recorder: PatternRecorder | None = None,
    training: TrainingStep | None = None,
) -> Float[Tensor, "R B Q V"]:
    """Return logits at the given rows; this family has no dropout."""
    groups = (len(weight) for weight in weights.values())
    tokens = grouped.lifted(tokens, max((attachments.replicates, *groups)))
    adapted = {**weights, **attachments.weights}
    model = _Model(family, adapted, attachments, recorder, *tokens.shape[1:])
    prompts = [model.for_samples(prompt) for prompt in model.prompts]
    x = torch.cat([*prompts, model.embedded(tokens)], 2)
    last = max((index for index, _ in family.attention_layers()), default=None)
    if last is None:
        x = model.content(x, rows)
    for index, layer in enumerate(family.stack):
        x = model.layer(index, layer, x, rows if index == last else None)
    return model.linear("unembed", grouped.picked(x, attachments.answer_rows))


@ENGINE_TOKEN_STATES.register("formal")
def token_states(
    family: Formal,
    weights: Mapping[str, Float[Tensor, "G ..."]],
    embeddings: Float[Tensor, "G P C"],
) -> dict[str, Float[Tensor, "G P _"]]:
    """Return what attention reads of virtual tokens.

    See `plugins.TokenStates`.
    """
    model = _Model(family, weights, Attachments(prompt=embeddings), None, samples=1, length=0)
    states: dict[str, Tensor] = {}
    x = model.for_samples(embeddings)
    for index, layer in enumerate(family.stack):
        if isinstance(layer, AttentionLayer):
            name = f"blocks.{index}.attn"
            keys, values = model.keys_values(name, x)
            for part, state in (("input", x), ("kv.keys", keys), ("kv.values", values)):
                states[f"{name}.{part}"] = state.squeeze(1)
        x = model.layer(index, layer, x, None)
    return states


@dataclass(frozen=True)
class _Model:
    """A forward pass for B `samples` of `length` content positions."""

    family: Formal
    weights: Mapping[str, Tensor]
    attachments: Attachments
    recorder: PatternRecorder | None
    samples: int
    length: int

    @property
    def prompts(self) -> tuple[Tensor, ...]:
        """The virtual tokens [R, P, C] of every kind, in tensor order."""
        both = (self.attachments.late_prompt, self.attachments.prompt)
        return tuple(prompt for prompt in both if prompt is not None)

    @property
    def late(self) -> int:
        """The number of virtual tokens of a late prompt."""
        prompt = self.attachments.late_prompt
        return 0 if prompt is None else prompt.shape[1]

    @property
    def virtual(self) -> int:
        """The number of virtual tokens."""
        return sum(prompt.shape[1] for prompt in self.prompts)

    def embedded(self, tokens: Int[Tensor, "R B T"]) -> Float[Tensor, "R B T C"]:
        """Return embeddings of tokens beside one-hot position codes."""
        x = grouped.embedding(tokens, self.weights["embed.weight"])
        first, codes = self.family.reserved_positions, self.family.codes()
        positions = torch.eye(codes, dtype=x.dtype, device=x.device)[first:][: tokens.shape[-1]]
        return torch.cat([x, positions.expand(*tokens.shape, codes)], -1)

    def linear(self, site: str, x: Tensor) -> Tensor:
        """Return the output of a linear site with its attachments."""
        return sites.linear(self.weights, self.attachments, site, x)

    def for_samples(self, rows: Float[Tensor, "R P C"]) -> Float[Tensor, "R B P C"]:
        """Expand learned rows to every sample."""
        return rows.unsqueeze(1).expand(-1, self.samples, -1, -1)

    def content(self, x: Float[Tensor, "R B N C"], rows: slice) -> Float[Tensor, "R B Q C"]:
        """Return some content positions of x, which has virtual tokens first."""
        return x[:, :, self.virtual :][:, :, rows]

    def layer(
        self, index: int, layer: Layer, x: Float[Tensor, "R B N C"], rows: slice | None
    ) -> Float[Tensor, "R B Q C2"]:
        """Return the output of a layer.

        Attention can keep `rows` of the content alone.
        """
        if isinstance(layer, AttentionLayer):
            return self.attention(index, layer, x, rows)
        x = self.linear(f"blocks.{index}.{layer.kind}", x)
        return functional.relu(x) if layer.kind == "relu" else x

    def attention(
        self, index: int, layer: AttentionLayer, x: Float[Tensor, "R B N C"], rows: slice | None
    ) -> Float[Tensor, "R B Q C2"]:
        """Return Σ_h A^h x W_V^h at all positions, or `rows` of the content."""
        if rows is not None and self.recorder is not None:  # it receives all patterns
            return self.content(self.attention(index, layer, x, None), rows)
        name, heads = f"blocks.{index}.attn", len(layer.heads)
        pairs = [*self.learned(name), self.keys_values(name, x)]
        keys, values = torch.cat([k for k, _ in pairs], 2), torch.cat([v for _, v in pairs], 2)
        hidden = self.hidden(name, keys.shape[2] - x.shape[2], x)
        if rows is not None:
            x, hidden = self.content(x, rows), hidden[self.virtual :][rows]
        scores = self.scores(layer, self.linear(f"{name}.q", x), keys)
        scores = scores.masked_fill(hidden, -torch.inf)
        pattern = scores.softmax(-1)  # R, B, H, Q, learned + N
        if self.recorder is not None:
            place = [i for i, _ in self.family.attention_layers()].index(index)
            relative = scores[..., self.virtual :, -self.length :].softmax(-1)
            self.recorder.record(place, pattern[..., self.virtual :, :], relative)
        factors = self.attachments.label_factors(name, self.length, rows or EVERY_ROW)
        if factors is not None:  # of a method that adds no position
            pattern = pattern * factors
        gathered = pattern @ values.unflatten(-1, (heads, -1)).transpose(2, 3)
        mixed = self.mixed(name, gathered.transpose(2, 3).flatten(-2), rows)
        return mixed.unflatten(-1, (heads, -1)).sum(-2)

    def scores(
        self,
        layer: AttentionLayer,
        queries: Float[Tensor, "R B N K"],
        keys: Float[Tensor, "R B M K"],
    ) -> Float[Tensor, "R B H N M"]:
        """Return T/√k · q·k for every head; heads may differ in k."""
        sizes = [head.key_size for head in layer.heads]
        parts = zip(sizes, queries.split(sizes, -1), keys.split(sizes, -1), strict=True)
        sharpness = self.family.inverse_temperature
        return torch.stack(
            [(sharpness * size**-0.5) * q @ k.transpose(-1, -2) for size, q, k in parts], 2
        )

    def learned(self, name: str) -> list[KeysValues]:
        """Return the learned keys and values of a layer, a suffix's first."""
        site, pairs = f"{name}.input", list[KeysValues]()
        for rows_by_site in (self.attachments.suffixes, self.attachments.attention_inputs):
            if (rows := rows_by_site.get(site)) is not None:
                pairs.append(self.keys_values(name, self.for_samples(rows)))
        if (pair := self.attachments.keys_values.get(f"{name}.kv")) is not None:
            pairs.append((self.for_samples(pair[0]), self.for_samples(pair[1])))
        return pairs

    def keys_values(self, name: str, x: Tensor) -> KeysValues:
        """Return the keys and values of all heads for x [R, B, N, C]."""
        return self.linear(f"{name}.k", x), self.linear(f"{name}.v", x)

    def hidden(self, name: str, learned: int, x: Float[Tensor, "R B N C"]) -> Bool[Tensor, "N M"]:
        """Return a mask of the keys that positions must not attend to.

        The first `learned` keys are learned.
        """
        places, late = self.places(x.device), self.late
        ahead = torch.zeros(len(places), learned + len(places), dtype=torch.bool, device=x.device)
        if self.family.attention == "causal":
            ahead[:, learned:] = places > places.unsqueeze(1)
        asked = places < self.attachments.answer_start
        ahead[late:, learned : learned + late] = asked[late:].unsqueeze(1)
        suffix = self.attachments.suffixes.get(f"{name}.input")
        if suffix is not None:
            asked[:late] = True  # the virtual tokens of a late prompt see no suffix
            ahead[:, : suffix.shape[1]] = asked.unsqueeze(1)
        return ahead

    def places(self, device: torch.device) -> Float[Tensor, "N"]:
        """Return the places of positions relative to content, in tensor order.

        A late prompt is between the position that produces the first answer token and the next.
        """
        late = torch.arange(1, self.late + 1, device=device).double() / (self.late + 1)
        others = torch.arange(self.late - self.virtual, self.length, device=device).double()
        return torch.cat([self.attachments.answer_start + late, others])

    def mixed(
        self, name: str, gathered: Float[Tensor, "R B Q HD"], rows: slice | None
    ) -> Float[Tensor, "R B Q HD"]:
        """Apply the method's change to content positions' attention output.

        The positions are all, virtual tokens first, or `rows` of the content.
        """
        mix = self.attachments.mixes.get(f"{name}.mix")
        if mix is None:
            return gathered
        if rows is not None:
            return mix(gathered, rows)
        content = mix(self.content(gathered, EVERY_ROW), EVERY_ROW)
        return torch.cat([gathered[:, :, : self.virtual], content], 2)
