"""Premises of claims about demonstrations: that a base uses them."""

from collections.abc import Iterator

from adaptlab.measurements.theory_report import Check, Detail
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory.isolation import answers, asked, share_limits
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory_checks.on_episodes import OnEpisodes


def used(check: OnEpisodes, base: FrozenBase, name: str, seed: int) -> Iterator[Check]:
    """Check that accuracy beats chance and that with permuted labels.

    `name` is that of the check.
    """
    right = _right(check, base, check.task, seed)
    permuted = _right(check, base, check.task.model_copy(update={"labels": "permuted"}), seed)
    low, high = share_limits(right, check.samples)
    low_permuted, high_permuted = share_limits(permuted, check.samples)
    details: dict[str, Detail] = {
        "samples": check.samples,
        "accuracy": right / check.samples,
        "accuracy_low": low,
        "accuracy_high": high,
        "accuracy_permuted": permuted / check.samples,
        "permuted_low": low_permuted,
        "permuted_high": high_permuted,
        "chance": check.task.chance(),
    }
    yield Check.at_least(
        f"{name}.above-chance",
        "The base answers by demonstrations: the lower 95 % limit of its accuracy is above chance. "
        "If not, nothing is claimed about label words.",
        low,
        check.task.chance(),
        **details,
    )
    yield Check.at_most(
        f"{name}.permuted",
        "Accuracy falls if the labels of demonstrations are permuted: its upper 95 % limit is then "
        "below the lower limit of true labels. If not, nothing is claimed about label words.",
        high_permuted,
        low,
        **details,
    )


def _right(check: OnEpisodes, base: FrozenBase, task: Episodes, seed: int) -> int:
    """Return the number of test items that the base answers correctly."""
    items = asked(task, check.samples, seed).items
    return int((answers(base, task, items) == items.targets[0, :, 0]).sum())
