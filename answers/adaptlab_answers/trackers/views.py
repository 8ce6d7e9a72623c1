"""Trackers of projects, as the API shows them."""

from typing import Literal

from adaptlab.values import Value
from adaptlab_answers.moments import Moment

TrackerKind = Literal["mlflow", "trackio"]


class TrackerView(Value):
    """A board to which the server sends the studies of a project.

    `experiment` is that of MLflow, or the project of Trackio. `waiting` is the number of studies
    that are sent again, because they run, have changed or were refused. `sent_at` is when the
    tracker last took a study, `error` why it last refused one that is still waiting, and
    `next_attempt_at` when it is asked again after refusals.
    """

    id: int
    project: str
    owner: str
    kind: TrackerKind
    url: str
    experiment: str
    has_token: bool
    created_at: Moment
    waiting: int
    sent_at: Moment | None
    error: str | None
    next_attempt_at: Moment | None
