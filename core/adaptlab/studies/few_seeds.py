"""The warning about a plan whose seeds cannot order its methods."""

from adaptlab.figures import counted
from adaptlab.statistics.leads import FEWEST_SEEDS


def few_seeds(seeds: int, methods: int) -> tuple[str, ...]:
    """Return a warning if so few seeds cannot show which method is better."""
    if seeds >= FEWEST_SEEDS or methods < 2:
        return ()
    return (
        f"{counted(seeds, 'seed')} cannot show which of {methods} methods is better, whatever the "
        f"scores: plan {FEWEST_SEEDS} or more.",
    )
