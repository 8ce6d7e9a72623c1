"""The largest plan of a drafted study that fits a time and can decide."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from adaptlab.statistics.leads import FEWEST_SEEDS
from adaptlab.studies.study_drafts import USUAL_OF_LARGE, Effort, NoDraft, StudyDraft

SHARE = 0.85
"""Share of the time that a plan may take by its estimate; the rest is for queue and start."""
FEWEST_METHODS = 2
"""Methods beside those that only show the range."""
RANGE = ("frozen", "full_finetuning", "head_only")
_OF_SMALL = (
    Effort(600, 32, 4, 200, 1000),
    Effort(400, 32, 4, 200, 1000),
    Effort(300, 32, 4, 200, 500),
    Effort(200, 32, 4, 200, 500),
)
_OF_LARGE = (
    USUAL_OF_LARGE,
    *(replace(USUAL_OF_LARGE, steps=steps) for steps in (160, 120, 100)),
    *(Effort(steps, 8, 5, 100, 500, halves=True) for steps in (100, 80, 60, 50)),
)
_LEAST_OF_SMALL, _LEAST_OF_LARGE = Effort(100, 32, 4, 100, 300), Effort(40, 8, 5, 100, 200, True)
"""Fewer rates would be so far apart that a method may have none at which it learns."""


@dataclass(frozen=True, slots=True)
class FittedPlan:
    """A draft that fits, with the seconds of its plan and what it lacks."""

    draft: StudyDraft
    seconds: float
    left_out: tuple[str, ...]


def fitted(
    draft: StudyDraft,
    minutes: float,
    workers: int,
    seconds_of: Callable[[StudyDraft], float],
    *,
    may_drop: bool,
) -> FittedPlan:
    """Return the draft with the most effort whose plan fits.

    Steps are lowered first, then methods are left out, and then steps are the fewest from which
    studies decide. Seeds stay: fewer than five order no methods. So do rates.

    Args:
        draft: the study with its usual effort.
        minutes: the time for all jobs.
        workers: jobs that run at a time.
        seconds_of: returns the seconds of a draft's plan, one job after another.
        may_drop: False if the methods were named.

    Raises:
        NoDraft: no plan fits; with the minutes of the shortest one that can decide.
    """
    if draft.seeds < FEWEST_SEEDS:
        raise NoDraft(
            f"{draft.seeds} seeds cannot show which method is better, whatever the time. Give "
            f"--seeds {FEWEST_SEEDS} or more."
        )
    most, seconds, shortest = minutes * 60 * SHARE, 0.0, draft
    for shortest in _candidates(draft, may_drop=may_drop):
        seconds = seconds_of(shortest) / min(workers, len(shortest.methods))
        if seconds <= most:
            gone = tuple(name for name in draft.methods if name not in shortest.methods)
            return FittedPlan(shortest, seconds, gone)
    needed = -(-seconds // (60 * SHARE))
    effort = shortest.effort
    assert effort is not None
    raise NoDraft(
        f"No plan of {minutes:g} minutes can decide. The shortest one takes about {needed:,.0f}: "
        f"{', '.join(shortest.methods)}, {shortest.seeds} seeds, {effort.trials} rates, "
        f"{effort.steps} steps. Give --minutes {needed:.0f}, a smaller base model, or more workers."
    )


def _candidates(draft: StudyDraft, *, may_drop: bool) -> Iterator[StudyDraft]:
    """Yield drafts, each shorter than the one before."""
    is_small = draft.base.is_small
    efforts = _OF_SMALL if is_small else _OF_LARGE
    for effort in efforts:
        yield replace(draft, effort=effort)
    fewer = [*draft.methods]
    while may_drop and (name := _least_needed(fewer)) is not None:
        fewer.remove(name)
        yield replace(draft, methods=tuple(fewer), effort=efforts[-1])
    least = _LEAST_OF_SMALL if is_small else _LEAST_OF_LARGE
    yield replace(draft, methods=tuple(fewer), effort=least)


def _least_needed(methods: list[str]) -> str | None:
    """Return the method to leave out next, None if all are needed.

    Full fine-tuning takes longest and only shows the range; then the last method goes.
    """
    if "full_finetuning" in methods:
        return "full_finetuning"
    compared = [name for name in methods if name not in RANGE]
    return compared[-1] if len(compared) > FEWEST_METHODS else None
