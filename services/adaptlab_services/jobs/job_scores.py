"""One figure a job, for lists: the mean accuracy on the task that it was trained for."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import Double, cast, func, select
from sqlalchemy.orm import Session

from adaptlab_db.tables import Evaluation, Job


def accuracies(session: Session, job_ids: Collection[UUID]) -> dict[UUID, float]:
    """The mean over seeds of the test accuracy on the job's own task, of the latest attempt.

    A job without such an evaluation is left out.
    """
    rows = session.execute(
        select(Evaluation.job_id, func.avg(cast(Evaluation.correct, Double) / Evaluation.total))
        .join(Job, (Job.id == Evaluation.job_id) & (Job.attempt == Evaluation.attempt))
        .where(
            Evaluation.job_id.in_(job_ids),
            Evaluation.split == "test",
            Evaluation.attached,
            Evaluation.task == Job.resolved_spec["task"],
        )
        .group_by(Evaluation.job_id)
    )
    return {row[0]: float(row[1]) for row in rows}
