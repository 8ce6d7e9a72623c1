"""A plain miniGPT, written independently of the engine.

It computes one model and one sample, with explicit loops. Learned rows are put in front of the
sequence and carried through every layer, as the paper's description has it; nothing is shared,
sliced or batched.
"""

import math
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.families.minigpt import MiniGPT


def plain_logits(
    family: MiniGPT,
    w: dict[str, Tensor],
    tokens: list[int],
    *,
    prompt: Tensor | None = None,
    prefixes: list[Tensor] | None = None,
    suffixes: list[Tensor] | None = None,
    late_prompt: Tensor | None = None,
    answer_start: int = 0,
    sublayer: Callable[[str, Tensor, Tensor], Tensor] = lambda name, x, y: y,
    mix: Callable[[str, Tensor], Tensor] = lambda name, gathered: gathered,
    isolated: Mapping[int, Collection[int]] = MappingProxyType({}),
    read_by: Mapping[int, list[int]] = MappingProxyType({}),
    factors: Mapping[int, Tensor] = MappingProxyType({}),
) -> Tensor:
    """Return logits [T, V].

    `prefixes` replace the first rows at every layer, `prompt` at one. `sublayer` gets the normed
    input and the output of attention and MLP, `mix` what the heads gathered, and each gives what
    takes its place. The rows of `suffixes` are seen at every layer by the tokens from
    `answer_start` on. So are the virtual tokens of `late_prompt`, which are carried through all
    layers behind the last token and see what stands up to `answer_start`. `isolated` are the rows
    that see only themselves, by layer; `read_by` are the rows that a row sees, in all layers.
    `factors` [H, T, T] multiply the attention weights of a
    layer.
    """
    x = torch.stack([w["embed.weight"][t] for t in tokens]) + w["positions.weight"][: len(tokens)]
    learned = 0
    if prompt is not None:
        x, learned = torch.cat([prompt, x]), len(prompt)
    if prefixes is not None:
        x, learned = torch.cat([torch.zeros_like(prefixes[0]), x]), len(prefixes[0])
    late = len(x)
    if late_prompt is not None:
        x = torch.cat([x, late_prompt])
    for layer in range(family.layers):
        if family.attention == "none":
            name = f"blocks.{layer}.mlp"
            normal = _norm(w, f"{name}.norm", x)
            x = x + sublayer(name, normal, _mlp(w, name, normal))
            continue
        source = x if prefixes is None else torch.cat([prefixes[layer], x[learned:]])
        name = f"blocks.{layer}.attn"
        normal = _norm(w, f"{name}.norm", source) if family.attention_norm else source
        suffix = None if suffixes is None else suffixes[layer]
        if suffix is not None and family.attention_norm:
            suffix = _norm(w, f"{name}.norm", suffix)
        first = learned + answer_start
        seen = [_seen(family, i, first, late, len(x)) for i in range(len(x))]
        for row in isolated.get(layer, ()):
            seen[row] = [row]
        for row, rows in read_by.items():
            seen[row] = rows
        gathered = mix(
            name, _attention(family, w, name, normal, seen, suffix, first, factors.get(layer))
        )
        attended = gathered @ w[f"{name}.o.weight"].T + w[f"{name}.o.bias"]
        x = x + sublayer(name, normal, attended)
        name = f"blocks.{layer}.mlp"
        normal = _norm(w, f"{name}.norm", x)
        x = x + sublayer(name, normal, _mlp(w, name, normal))
    return _norm(w, "final_norm", x)[learned:late] @ w["unembed.weight"].T


def _seen(family: MiniGPT, row: int, first: int, late: int, stop: int) -> list[int]:
    """Return the rows that a row sees.

    Rows from `first` on see the virtual tokens from `late` on.
    """
    causal = family.attention == "causal"
    if row < late:
        return [*range(row + 1 if causal else late), *(range(late, stop) if row >= first else ())]
    return [*range(first + 1 if causal else late), *range(late, row + 1 if causal else stop)]


def _attention(
    family: MiniGPT,
    w: dict[str, Tensor],
    name: str,
    x: Tensor,
    seen: list[list[int]],
    suffix: Tensor | None,
    first: int,
    factor: Tensor | None = None,
) -> Tensor:
    """Return the heads' attention; from `first` on with the suffix too."""
    q, k, v = (x @ w[f"{name}.{p}.weight"].T + w[f"{name}.{p}.bias"] for p in "qkv")
    size = family.width // family.heads
    rows: list[Tensor] = []
    for i in range(len(x)):
        keys, values = k[seen[i]], v[seen[i]]
        if suffix is not None and i >= first:
            keys = torch.cat([keys, suffix @ w[f"{name}.k.weight"].T + w[f"{name}.k.bias"]])
            values = torch.cat([values, suffix @ w[f"{name}.v.weight"].T + w[f"{name}.v.bias"]])
        heads: list[Tensor] = []
        for head in range(family.heads):
            part = slice(head * size, (head + 1) * size)
            scores = torch.stack([q[i, part] @ key[part] / math.sqrt(size) for key in keys])
            weights = scores.softmax(0)
            if factor is not None:
                weights = weights * factor[head, i, seen[i]]
            heads.append(weights @ values[:, part])
        rows.append(torch.cat(heads))
    return torch.stack(rows)


def _mlp(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    h = x @ w[f"{name}.up.weight"].T + w[f"{name}.up.bias"]
    h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
    return h @ w[f"{name}.down.weight"].T + w[f"{name}.down.bias"]


def _norm(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])
