"""Scores of adapted and of base models on the same items, made up."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adaptlab.runs.events import Evaluation, Measure
from adaptlab.runs.item_statistics import as_text, packed


def both_ways(
    task: dict[str, object], adapted: Sequence[int], base: Sequence[int], items: int
) -> tuple[Evaluation, ...]:
    """Return the scores of every seed, adapted and of its base model.

    The first so many of the items are right.
    """
    return tuple(
        _scored(seed, task, items, attached, right=right)
        for seed, pair in enumerate(zip(adapted, base, strict=True))
        for attached, right in zip((True, False), pair, strict=True)
    )


def drifted(
    task: dict[str, object], nats: Sequence[float], passages: int = 200
) -> tuple[Evaluation, ...]:
    """Return the statistics of every seed on passages of ten tokens.

    `nats` are KL(base || adapted) per token.
    """
    found: list[Evaluation] = []
    for seed, kl in enumerate(nats):
        for attached in (True, False):
            row = [10 * kl if attached else 0.0, 20.0, 10.0, 40.0]
            text = as_text(packed(np.tile(row, (passages, 1))))
            measure = Measure(metric="kl_from_base", value=row[0] / 10, statistics=text)
            found.append(_scored(seed, task, passages, attached, measures=(measure,)))
    return tuple(found)


def _scored(
    seed: int, task: dict[str, object], items: int, attached: bool, right: int = 0, **more: Any
) -> Evaluation:
    return Evaluation(
        replicate=seed,
        seed=seed,
        task=task,
        split="test",
        attached=attached,
        correct=right,
        total=items,
        outcomes=np.packbits(np.arange(items) < right).tobytes().hex(),
        **more,
    )
