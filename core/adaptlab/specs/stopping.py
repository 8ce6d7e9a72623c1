"""The metric by which replicates stop early."""

from adaptlab.plugins.metric import Metric
from adaptlab.plugins.task import Task
from adaptlab.specs.spec import ResolvedTraining


def stopping_metric(training: ResolvedTraining, task: Task) -> Metric | None:
    """Return the metric that early stopping follows, if not the loss.

    A perplexity is in the order of the loss, so only a share is measured for this.
    """
    metric = task.own_metric()
    if training.early_stopping is None or metric is None or not metric.is_share:
        return None
    return metric
