"""Warnings about bfloat16 on queues where runs measured that it is slower."""

from collections.abc import Iterable

from sqlalchemy.orm import Session

from adaptlab.specs.resolved import Resolved
from adaptlab_services.jobs.measured_machines import measured_machine


def warnings(session: Session, jobs: Iterable[tuple[Resolved, str]]) -> tuple[str, ...]:
    """Return a warning per queue and family on which bfloat16 was slower.

    `jobs` are given with their queues. Only those that ask for bfloat16 are looked at.
    """
    asked = {(queue, str(job.family.name)) for job, queue in jobs if job.precision == "bfloat16"}
    found: list[str] = []
    for queue, family in sorted(asked):
        machine = measured_machine(session, queue, family)
        cost = None if machine is None else machine.bfloat16_cost
        if cost is not None and cost > 1:
            found.append(
                f"In the latest run of {family} on the queue {queue!r}, a matrix product took "
                f"{cost:.3g} times as long in bfloat16 as in float32. Use the precision float32, "
                "or auto, which chooses the faster one."
            )
    return tuple(found)
