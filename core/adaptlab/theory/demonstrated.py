"""Premises of claims about demonstrations: that a base uses them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.runs.theory_report import Check, Detail
from adaptlab.theory.asking import Asked, asked
from adaptlab.theory.isolation import answers
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.over_replicates import share_limits
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.on_demonstrations import OnDemonstrations


@dataclass(frozen=True)
class View:
    """A base with a set of demonstrations before its items.

    `permuted` are the same with their labels shuffled.
    """

    base: FrozenBase
    shown: Asked
    permuted: Asked


def views(check: OnDemonstrations, subject: Subject) -> tuple[View, ...]:
    """Return every replicate of the base with every set of demonstrations."""
    return tuple(
        View(base, shown, permuted)
        for seed in range(subject.seed, subject.seed + check.sets)
        for shown, permuted in [(asked(check, seed), asked(check, seed, permuted=True))]
        for base in subject.replicates
    )


def used(check: OnDemonstrations, replicates: Sequence[View], name: str) -> Iterator[Check]:
    """Check that accuracy beats chance and that with permuted labels.

    Each of `replicates` has to. `name` is that of the check.
    """
    samples = replicates[0].shown.count
    right = [_right(view.base, view.shown) for view in replicates]
    permuted = [_right(view.base, view.permuted) for view in replicates]
    lows, highs = zip(*share_limits(right, samples), strict=True)
    permuted_lows, permuted_highs = zip(*share_limits(permuted, samples), strict=True)
    details: dict[str, Detail] = {
        "samples": samples,
        "replicates": len(replicates),
        "accuracy": tuple(count / samples for count in right),
        "accuracy_low": lows,
        "accuracy_high": highs,
        "accuracy_permuted": tuple(count / samples for count in permuted),
        "permuted_low": permuted_lows,
        "permuted_high": permuted_highs,
        "chance": check.task.chance(),
    }
    yield Check.at_least(
        f"{name}.above-chance",
        "Every replicate answers by demonstrations: the lower 95 % limit of its accuracy is above "
        "chance. If not, nothing is claimed about label words.",
        min(lows),
        check.task.chance(),
        **details,
    )
    high, low = max(
        zip(permuted_highs, lows, strict=True), key=lambda limits: limits[0] - limits[1]
    )
    yield Check.at_most(
        f"{name}.permuted",
        "Accuracy falls if the labels of demonstrations are permuted: its upper 95 % limit is then "
        "below the lower limit of true labels, in every replicate. If not, nothing is claimed "
        "about label words.",
        high,
        low,
        **details,
    )


def by_replicate(values: Tensor) -> tuple[float, ...]:
    """Return the mean over items of values [R, B] for every replicate."""
    return tuple(values.double().mean(1).tolist())


def _right(base: FrozenBase, shown: Asked) -> int:
    """Return the number of test items that the base answers correctly."""
    return int(torch.eq(answers(base, shown), shown.right).sum())
