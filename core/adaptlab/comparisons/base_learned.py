"""The warning about a base model that has not learned its own tasks."""

import math
from collections.abc import Sequence

from adaptlab.comparisons.comparison_warnings import ComparisonWarning
from adaptlab.comparisons.scores import task_labels
from adaptlab.figures import percent
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.task import AnyTask
from adaptlab.values import Value

LEARNED_FROM = 0.5
"""A base has learned its tasks at this share of the way from chance to 1."""


class OwnScore(Value):
    """The score of a base model alone on a task of its pretraining.

    `accuracy` is the mean over its seeds.
    """

    task: AnyTask
    accuracy: float


def base_warning(base_model: str, own: Sequence[OwnScore]) -> ComparisonWarning | None:
    """Return a warning if the base has not learned its own tasks.

    `own` has one score per task of the base. A mixture gives no cue to which of its tasks is
    meant, so no model can do all of them, and their scores are added up. Answers that are judged
    by a metric of texts, such as perplexity, are rarely right word for word, and are not judged.
    """
    own = [one for one in own if _asks_for_right_answers(one.task)]
    if not own:
        return None
    accuracy = min(1.0, math.fsum(one.accuracy for one in own))
    chance = min(1.0, math.fsum(one.task.chance() for one in own))
    needed = chance + LEARNED_FROM * (1 - chance)
    if accuracy >= needed:
        return None
    scores = ", ".join(
        f"{percent(one.accuracy)} on {label}"
        for label, one in zip(task_labels([as_json(one.task) for one in own]), own, strict=True)
    )
    tasks, together = ("tasks", " together") if len(own) > 1 else ("task", "")
    text = (
        f"The base model {base_model} has not learned its own {tasks}: it scores {scores}, and "
        f"half way from chance to 1 is {percent(needed)}{together}. Methods may fail because of "
        "the base model. Pretrain it for more steps or at another learning rate."
    )
    return ComparisonWarning(kind="base_not_learned", text=text)


def _asks_for_right_answers(task: AnyTask) -> bool:
    metric = task.own_metric()
    return metric is None or metric.needs == "labels"
