"""Statistics of methods over seeds and test items, without torch.

Imports `measurements` and the wings below it.
"""

from adaptlab.statistics.choice import ChosenBest, chosen_best
from adaptlab.statistics.failing import FailingSeeds, Floor, failing_seeds, floor_of
from adaptlab.statistics.intervals import (
    Interval,
    mean_interval,
    seed_interval,
    seed_limits,
    unseen_failure_rate,
)
from adaptlab.statistics.pairs import PairedDifference, holm, paired_difference
from adaptlab.statistics.scores import Scores, guessing_accuracy, scores_of

__all__ = [
    "ChosenBest",
    "FailingSeeds",
    "Floor",
    "Interval",
    "PairedDifference",
    "Scores",
    "chosen_best",
    "failing_seeds",
    "floor_of",
    "guessing_accuracy",
    "holm",
    "mean_interval",
    "paired_difference",
    "scores_of",
    "seed_interval",
    "seed_limits",
    "unseen_failure_rate",
]
