"""Whether the training of a row has come to rest, so that more steps would change nothing."""

from collections.abc import Iterator

from adaptlab.reproductions.recipe_results import MeasuredRow, SeedLoss

STILL_FALLING = 0.05
"""A training is not at rest if its second half lowered the loss at half by this share."""


def unrest(row: MeasuredRow, seeds: int) -> Iterator[str]:
    """Reasons why more training of the row might change its score, each the end of a sentence.

    There are none only at a constant learning rate: where a schedule takes the rate to zero,
    everything comes to rest.
    """
    if row.schedule is not None and row.schedule != "constant":
        yield f"a {row.schedule} schedule stops the training whether or not it has come to rest"
    if len(row.losses) < seeds or any(one.half is None for one in row.losses):
        yield "the loss at half of the training was not kept, so rest cannot be seen"
    if falling := [one for one in row.losses if _falls(one)]:
        one = falling[0]
        yield (
            f"the training loss of {len(falling)} of {len(row.losses)} seeds was still falling "
            f"(seed {one.seed}: {one.half:.3g} at half, {one.final:.3g} at the end)"
        )
    if 2 * sum(one.at_edge for one in row.losses) > len(row.losses):
        yield "the best learning rate of most seeds is the lowest or the highest that was tried"


def _falls(one: SeedLoss) -> bool:
    if one.half is None or one.final is None:
        return False
    return one.half - one.final > STILL_FALLING * one.half
