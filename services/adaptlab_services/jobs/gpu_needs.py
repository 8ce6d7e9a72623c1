"""Jobs that need a GPU, and the queues where they would find none."""

from collections.abc import Iterable, Set
from typing import NamedTuple

from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.quantised import POINTER
from adaptlab.specs.resolved import Resolved
from adaptlab.specs.spec import ResolvedTraining, TrainingSpec
from adaptlab_services.lifecycle import workers


class GpuNeeds(NamedTuple):
    """Queues of jobs that need a GPU.

    `rounded` are those of trainings in TF32, and `quantised` those of four-bit base weights.
    """

    rounded: frozenset[str] = frozenset()
    quantised: frozenset[str] = frozenset()

    @classmethod
    def of(cls, trainings: Iterable[tuple[TrainingSpec | ResolvedTraining, str]]) -> "GpuNeeds":
        """Return the needs of trainings, given with their queues."""
        listed = tuple(trainings)
        return cls(
            frozenset(queue for one, queue in listed if one.precision == "tf32"),
            frozenset(queue for one, queue in listed if one.base_weights == "nf4"),
        )

    def warnings(self, served: Set[str], without_gpu: Set[str]) -> tuple[str, ...]:
        """Return warnings about these queues.

        `served` have live workers, and `without_gpu` some that have no GPU.
        """
        rounded = (
            f"A live worker of the queue {queue!r} has no NVIDIA GPU. A job with the precision "
            "tf32 fails there; float32 runs everywhere."
            for queue in sorted(self.rounded & without_gpu)
        )
        quantised = (
            f"A live worker of the queue {queue!r} has no NVIDIA GPU. A job with the base weights "
            "nf4 fails there, because they are not available on a CPU."
            for queue in sorted(self.quantised & without_gpu)
        )
        unserved = (
            "The base weights nf4 are not available on a CPU. The job needs a worker with an "
            f"NVIDIA GPU on the queue {queue!r}."
            for queue in sorted(self.quantised - served)
        )
        return (*rounded, *quantised, *unserved)


NO_NEEDS = GpuNeeds()
"""No job needs a GPU."""


def warnings(session: Session, needs: GpuNeeds, served: Set[str]) -> tuple[str, ...]:
    """Return warnings about the queues of jobs that need a GPU."""
    without = workers.queues_without_gpu(session) if any(needs) else frozenset[str]()
    return needs.warnings(served, without)


def check_each(session: Session, jobs: Iterable[tuple[Resolved, str]]) -> None:
    """Check that jobs, given with their queues, may find a GPU.

    A queue that no live worker serves may get a worker with one.

    Raises:
        InvalidSpec: no live worker of the queue of a job with four-bit base weights has one.
    """
    queues = {queue for job, queue in jobs if job.quantises}
    lacking = sorted(queues & workers.queues_with_no_gpu(session)) if queues else []
    if lacking:
        detail = (
            f"The base weights nf4 are not available on a CPU, and no live worker of the queue "
            f"{lacking[0]!r} has an NVIDIA GPU. Choose a queue of workers with one, or use "
            "`base_weights: stored`."
        )
        raise InvalidSpec(Problem(POINTER, "no_gpu", detail, allowed=("stored",)))
