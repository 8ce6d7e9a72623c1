"""Reasons to doubt that a training is at rest."""

from collections.abc import Iterator

from adaptlab.figures import counted
from adaptlab.reproductions.recipe_results import RecipeRow, SeedLoss

STILL_FALLING = 0.05
"""A training is not at rest if its second half lowered the loss by more than this share."""


def unrest(row: RecipeRow, seeds: int) -> Iterator[str]:
    """Yield reasons, as clauses, why more training might change a score.

    There is always one unless the learning rate is constant: a schedule that takes the rate to zero
    brings every training to rest.
    """
    if row.schedule is not None and row.schedule != "constant":
        yield f"under a {row.schedule} schedule every training comes to rest"
    if len(row.losses) < seeds or any(loss.half is None for loss in row.losses):
        yield "the loss half way through the training was not kept, so rest cannot be shown"
    if falling := [loss for loss in row.losses if _falls(loss)]:
        loss = falling[0]
        yield (
            f"the training loss of {len(falling)} of {counted(len(row.losses), 'seed')} was still "
            f"falling (seed {loss.seed}: {loss.half:.3g} nats half way, {loss.final:.3g} nats at "
            "the end)"
        )
    if 2 * sum(loss.at_edge for loss in row.losses) > len(row.losses):
        yield "the best learning rate of most seeds is the lowest or the highest tried"


def _falls(loss: SeedLoss) -> bool:
    if loss.half is None or loss.final is None:
        return False
    return loss.half - loss.final > STILL_FALLING * loss.half
