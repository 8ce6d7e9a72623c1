"""Causal attention by one kernel each way, on a CPU in float32.

torch takes a dozen operations for it, whose matrices of some ten rows are small, and copies what
they arrange by head. The kernel computes an item and a head at a time, and keeps the pattern.
"""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from adaptlab.engine.kernels.compiled import Kernels, kernels_for
from adaptlab.engine.kernels.dropout_masks import Masks
from adaptlab.engine.kernels.fused_products import summed
from adaptlab.engine.tensors import Float, Int

Pair = tuple[Tensor, Tensor]
LONGEST = 128
"""Keys above which the products are large enough for torch."""
ITEMS_A_PART = 64
"""Items that one thread computes, and whose gradients are summed."""


class _View(ctypes.Structure):
    """As in `attention.c`."""

    _fields_ = (
        ("at", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("share", "replicate", "item", "head", "row")),
        ("tokens", ctypes.c_void_p),
        *((f"tokens_{name}", ctypes.c_int64) for name in ("share", "replicate", "item")),
    )


class _Attention(ctypes.Structure):
    """As in `attention.c`."""

    _fields_ = (
        *((name, _View) for name in ("queries", "keys", "values")),
        *((name, _View) for name in ("learned_keys", "learned_values", "mixed")),
        ("pattern", ctypes.c_void_p),
        *((name, _View) for name in ("incoming", "of_queries", "of_keys", "of_values")),
        *((name, ctypes.c_void_p) for name in ("of_learned_keys", "of_learned_values")),
        *((name, ctypes.c_void_p) for name in ("step", "seeds")),
        ("stream", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("below", "first_item")),
        ("share", ctypes.c_double),
        *((name, ctypes.c_int64) for name in ("replicates", "together")),
        *((name, ctypes.c_int64) for name in ("items", "heads", "rows", "positions", "learned")),
        *((name, ctypes.c_int64) for name in ("width", "first_row", "parts")),
    )


@dataclass(frozen=True)
class QueryPlace:
    """Where queries are among N positions of content, and what is dropped.

    With tokens, queries, keys and values are those of every token of the vocabulary at each
    position. `first_row` is the position of the first query, `masks` are those of the pattern.
    """

    tokens: Int[Tensor, "A B N"] | None
    first_row: int
    masks: Masks | None


def fused_attention(
    queries: Float[Tensor, "A B H Q D"], own: Pair, learned: Pair | None, place: QueryPlace
) -> Float[Tensor, "R B2 Q HD"] | None:
    """Return what queries read of learned positions and of content.

    None where there is no kernel for it, or it would need gradients of what replicates share.

    Args:
        queries: scaled.
        own: keys and values [A2, B, H, N, D] of content, to which later queries attend.
        learned: keys and values [A3, 1, H, L, D], to which all queries attend.
        place: where the queries are.
    """
    given = (queries, *own, *(learned or ()))
    kernels, replicates = kernels_for(*given), _replicates(given, place)
    if kernels is None or queries.dtype != torch.float32 or not kernels.has_products:
        return None
    if not _is_usual(given, place):
        return None
    if torch.is_grad_enabled() and any(t.requires_grad and len(t) < replicates for t in given):
        return None
    both = (None, None) if learned is None else learned
    attended: Tensor = _Attended.apply(queries, *own, *both, place, kernels)  # pyright: ignore[reportAssignmentType]
    return attended


def _is_usual(given: Sequence[Tensor], place: QueryPlace) -> bool:
    """Return True if the kernel is made for what is given."""
    own, learned = given[:3], given[3:]
    seeds = None if place.masks is None else place.masks.seeds
    replicates = _replicates(given, place)
    return (
        own[1].shape[-2] <= LONGEST
        and len({(*each.shape[1:3], each.shape[-1]) for each in own}) == 1
        and all(each.shape[1] == 1 for each in learned)
        and all(replicates % len(each) == 0 for each in (*given, *_tokens(place)))
        and (seeds is None or (len(seeds) == replicates and seeds.is_contiguous()))
        and all(_can_be_read(tokens, own[1].shape[1]) for tokens in _tokens(place))
    )


def _can_be_read(tokens: Tensor, vocabulary: int) -> bool:
    """Return True if a kernel finds every token in a table."""
    if tokens.dtype != torch.int64 or tokens.stride(-1) != 1 or not tokens.numel():
        return False
    least, most = tokens.aminmax()
    return int(least) >= 0 and int(most) < vocabulary


class _Attended(torch.autograd.Function):
    """Attention by a kernel; the backward pass draws dropout's mask again."""

    @staticmethod
    def forward(  # torch's context is of any type
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, learned_keys: Tensor | None,
        learned_values: Tensor | None, place: QueryPlace, kernels: Kernels,
    ) -> Tensor:  # fmt: skip
        given = tuple(map(_in_rows, (queries, keys, values, learned_keys, learned_values)))
        it = _argument(given, place)
        mixed = queries.new_empty(it.replicates, it.items, it.rows, it.heads, it.width)
        it.mixed = _view(mixed.transpose(2, 3), it.replicates)
        if any(ctx.needs_input_grad):
            every = it.learned + it.positions
            pattern = queries.new_empty(it.replicates, it.items, it.heads, it.rows, every)
            it.pattern = pattern.data_ptr()
            ctx.save_for_backward(pattern, *given)
            ctx.place, ctx.kernels = place, kernels
        kernels.product("attention", it, back=False)
        return mixed.flatten(-2)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] -- the decorator hides names
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        pattern, *given = ctx.saved_tensors
        it, tokens = _argument(given, ctx.place), ctx.place.tokens
        incoming = grad_outputs[0].contiguous().unflatten(-1, (it.heads, -1)).transpose(2, 3)
        it.pattern, it.incoming = pattern.data_ptr(), _view(incoming, it.replicates)
        gradients: list[Tensor | None] = []
        for name, each, needed in zip(_NAMES, given, ctx.needs_input_grad, strict=False):
            if not needed:
                gradients.append(None)
            elif name in _NAMES[:3]:
                parts = 1 if tokens is None else it.parts
                room = each.new_empty(len(each), parts, *each.transpose(2, 3).shape[1:])
                tensor = room.transpose(3, 4).flatten(0, 1)
                view = _view(tensor, it.replicates, _seen(name, ctx.place))
                view.share = 1
                setattr(it, f"of_{name}", view)
                gradients.append(room)
            else:
                room = each.new_empty(len(each), it.parts, *each.shape[2:])
                setattr(it, f"of_{name}", room.data_ptr())
                gradients.append(room)
        ctx.kernels.product("attention", it, back=True)
        own = (g if g is None else summed(g).transpose(2, 3) for g in gradients[:3])
        learned = (g if g is None else summed(g).unsqueeze(1) for g in gradients[3:])
        return *own, *learned, None, None


_NAMES = ("queries", "keys", "values", "learned_keys", "learned_values")


def _argument(given: Sequence[Tensor | None], place: QueryPlace) -> _Attention:
    """Return what the kernel reads of queries, keys and values."""
    queries, keys, values, learned, _ = given
    assert queries is not None
    assert keys is not None
    assert values is not None
    replicates = _replicates([each for each in given if each is not None], place)
    of_content = dict(zip(_NAMES[:3], (queries, keys, values), strict=True))
    of_learned = {n: t for n, t in zip(_NAMES[3:], given[3:], strict=True) if t is not None}
    views = {n: _view(each, replicates, _seen(n, place)) for n, each in of_content.items()}
    items = (queries if place.tokens is None else place.tokens).shape[1]
    it = _Attention(
        **views,
        **{name: _view(each, replicates) for name, each in of_learned.items()},
        replicates=replicates,
        together=math.gcd(*(replicates // len(each) for each in (keys, values, *_tokens(place)))),
        items=items,
        heads=queries.shape[2],
        rows=queries.shape[-2],
        positions=keys.shape[-2],
        learned=0 if learned is None else learned.shape[-2],
        width=queries.shape[-1],
        first_row=place.first_row,
        parts=max(1, items // ITEMS_A_PART),
    )
    if place.masks is not None:
        masks = place.masks
        it.step, it.seeds = masks.step.data_ptr(), masks.seeds.data_ptr()
        it.stream, it.below = masks.stream, masks.below
        it.first_item, it.share = masks.first_item, 1 - masks.rate
    return it


def _tokens(place: QueryPlace) -> tuple[Tensor, ...]:
    return () if place.tokens is None else (place.tokens,)


def _replicates(given: Sequence[Tensor], place: QueryPlace) -> int:
    """Return R, that of the tensor with most rows."""
    return max(map(len, (*given, *_tokens(place))))


def _seen(name: str, place: QueryPlace) -> Tensor | None:
    """Return the tokens of queries, keys or values, by their name."""
    if place.tokens is None or name != "queries":
        return place.tokens
    return place.tokens[..., place.first_row :]


def _in_rows(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor whose rows are each in one place."""
    return tensor if tensor is None or tensor.stride(-1) == 1 else tensor.contiguous()


def _view(tensor: Tensor, replicates: int, tokens: Tensor | None = None) -> _View:
    """Return where the kernel finds the parts of a tensor [A, B, H, n, D]."""
    replicate, item, head, row, _ = tensor.stride()
    item = item if tensor.shape[1] > 1 else 0  # one for all
    view = _View(tensor.data_ptr(), replicates // len(tensor), replicate, item, head, row)
    if tokens is not None:
        view.tokens, view.tokens_share = tokens.data_ptr(), replicates // len(tokens)
        view.tokens_replicate, view.tokens_item, _ = tokens.stride()
    return view
