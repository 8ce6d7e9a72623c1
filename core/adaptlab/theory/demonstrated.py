"""Premises of claims about demonstrations: that a base uses them."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from adaptlab.measurements.theory_report import Check, Detail
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.isolation import answers, asked
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.over_replicates import share_limits
from adaptlab.theory_checks.on_episodes import OnEpisodes


def used(
    check: OnEpisodes, replicates: Sequence[FrozenBase], name: str, seed: int
) -> Iterator[Check]:
    """Check that accuracy beats chance and that with permuted labels.

    Each of `replicates` has to. `name` is that of the check.
    """
    permuted_task = check.task.model_copy(update={"labels": "permuted"})
    right = [_right(check, base, check.task, seed) for base in replicates]
    permuted = [_right(check, base, permuted_task, seed) for base in replicates]
    lows, highs = zip(*share_limits(right, check.samples), strict=True)
    permuted_lows, permuted_highs = zip(*share_limits(permuted, check.samples), strict=True)
    details: dict[str, Detail] = {
        "samples": check.samples,
        "replicates": len(replicates),
        "accuracy": tuple(count / check.samples for count in right),
        "accuracy_low": lows,
        "accuracy_high": highs,
        "accuracy_permuted": tuple(count / check.samples for count in permuted),
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


def _right(check: OnEpisodes, base: FrozenBase, task: Episodes, seed: int) -> int:
    """Return the number of test items that the base answers correctly."""
    items = asked(task, check.samples, seed).items
    return int(torch.eq(answers(base, task, items), items.targets[0, :, 0]).sum())
