"""The metric by which replicates stop early."""

from adaptlab.plugins.task import Task
from adaptlab.specs.spec import ResolvedTraining
from adaptlab.text.metrics import OtherMetric, is_share


def stopping_metric(training: ResolvedTraining, task: Task) -> OtherMetric | None:
    """Return the metric that early stopping follows, if not the loss.

    A perplexity is in the order of the loss, so only a share is measured for this.
    """
    metric = task.other_metric()
    if training.early_stopping is None or metric is None or not is_share(metric):
        return None
    return metric
