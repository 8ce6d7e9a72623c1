"""Seeds of a job, and the base replicates that they start from."""

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import counted
from adaptlab.specs.spec import Seed, Seeds
from adaptlab.values import AUTO, Auto


def listed_seeds(seeds: Seeds) -> tuple[Seed, ...]:
    """Return the seeds of a number, or of a list."""
    return tuple(range(seeds)) if isinstance(seeds, int) else seeds


def starting_replicates(
    chosen: tuple[Seed, ...] | Auto, seeds: int, available: int
) -> tuple[int, ...]:
    """Return the replicate of the base that each seed starts from.

    Raises:
        InvalidSpec: there is not one per seed, or the base model does not have it.
    """
    if chosen == AUTO:
        return tuple(index % available for index in range(seeds))
    if len(chosen) != seeds:
        replicates = counted(len(chosen), "base replicate")
        detail = f"The spec has {replicates} for {counted(seeds, 'seed')}. Give one per seed."
        raise InvalidSpec(Problem("/base_replicates", "not_one_a_seed", detail, nearest=(seeds,)))
    for index, replicate in enumerate(chosen):
        if replicate >= available:
            detail = (
                f"There is no replicate {replicate}. The base model has "
                f"{counted(available, 'replicate')}, counted from 0."
            )
            pointer = f"/base_replicates/{index}"
            raise InvalidSpec(
                Problem(pointer, "no_such_replicate", detail, nearest=(available - 1,))
            )
    return chosen
