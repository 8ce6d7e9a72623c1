"""Greedy decoding, one token of every unfinished answer at a time."""

import torch
from torch import Tensor

from adaptlab.engine.key_cache import Begun
from adaptlab.engine.tensors import Bool, Int

LEAST_FINISHED = 4
"""Answers are put together again, which copies the cache, once one in so many is finished."""


def token_by_token(
    begun: Begun, room: Int[Tensor, "B"], end: int | None, is_open: Bool[Tensor, "R B"] | None
) -> Int[Tensor, "A B M"]:
    """Return the tokens of greedy decoding.

    They are valid up to the first end token, or the first `room` of them. There are A rows, which
    divide R; answers that are not open in any replicate of a row stay empty.
    """
    following = begun.logits.argmax(-1)
    count, items = following.shape
    room = room.to(following.device)
    tokens = following.new_zeros(count, items, int(room.max()))
    unfinished = torch.ones_like(following, dtype=torch.bool)
    if is_open is not None:
        share = len(is_open) // count
        unfinished = is_open.to(following.device).unflatten(0, (count, share)).any(1)
    column = torch.arange(items, device=following.device).expand(count, -1)
    replicate = torch.arange(count, device=following.device).unsqueeze(1)
    for place in range(tokens.shape[-1]):
        if place:
            following = begun.after(following).argmax(-1)
        is_told = unfinished.nonzero(as_tuple=True)
        tokens[is_told[0], column[is_told], place] = following[is_told]
        is_over = room[column] <= place + 1
        unfinished = unfinished & ~(is_over if end is None else is_over | (following == end))
        most = int(unfinished.sum(1).max())
        if not most:
            break
        if LEAST_FINISHED * most <= (LEAST_FINISHED - 1) * unfinished.shape[1]:
            kept = unfinished.long().argsort(dim=1, descending=True, stable=True)[:, :most]
            begun.cache.keep(kept)
            column, following, unfinished = (
                each[replicate, kept] for each in (column, following, unfinished)
            )
    return tokens
