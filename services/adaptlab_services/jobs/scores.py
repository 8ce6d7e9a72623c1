"""Mean accuracy per job on the task that it was trained on, for lists."""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import Double, cast, func, select
from sqlalchemy.orm import Session

from adaptlab_db.tables import Evaluation, Job


def accuracies(session: Session, job_ids: Collection[UUID]) -> dict[UUID, float]:
    """Return each job's mean test accuracy over seeds on its own task.

    It is that of the job's latest attempt. Jobs without such an evaluation are left out.
    """
    accuracy = func.avg(cast(Evaluation.correct, Double) / Evaluation.total)
    rows = session.execute(
        select(Evaluation.job_id, accuracy.label("accuracy"))
        .join(Job, (Job.id == Evaluation.job_id) & (Job.attempt == Evaluation.attempt))
        .where(
            Evaluation.job_id.in_(job_ids),
            Evaluation.split == "test",
            Evaluation.attached,
            Evaluation.base_model == "",
            Evaluation.task == Job.resolved_spec["task"],
        )
        .group_by(Evaluation.job_id)
    )
    return {row.job_id: float(row.accuracy) for row in rows}
