"""The extension of a study that would decide an undecided diagnosis."""

from collections.abc import Mapping, Sequence

from adaptlab.plugins.method import METHODS
from adaptlab.specs.spec import MOST_TRIALS

HIGHEST_RATE = 10.0
"""The highest learning rate that a spec accepts."""
LONGEST_LABEL = 120


def extension(
    *,
    configuration: Mapping[str, object] | None = None,
    label: str = "",
    steps: Sequence[int] = (),
    rates: tuple[float, float] = (0.0, 0.0),
    trials: int = 1,
    budget: int | Mapping[str, int] | None = None,
    seeds: int | None = None,
    references: Sequence[str] = (),
    rival: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return a `StudyExtension` as JSON with only the members that are needed.

    `configuration` is trained again at a constant rate, once for each of `steps`, over `trials`
    rates from the first of `rates` to the second. `rival` is another method that is trained too.
    """
    methods = [_again(configuration or {}, label, count, rates, trials) for count in steps]
    methods += [{"name": name} for name in references]
    methods += [] if rival is None else [dict(rival)]
    members: dict[str, object] = {"methods": methods} if methods else {}
    if budget is not None:
        members["budgets"] = [budget]
    if seeds is not None:
        members["seeds"] = seeds
    return members


def _again(
    configuration: Mapping[str, object],
    label: str,
    steps: int,
    rates: tuple[float, float],
    trials: int,
) -> dict[str, object]:
    ending = f", constant rate, {steps:,} steps"
    return {
        **configuration,
        "label": label[: LONGEST_LABEL - len(ending)] + ending,
        "training": {"schedule": "constant", "warmup_fraction": 0.0, "steps": steps},
        "tuning": {
            "trials": min(MOST_TRIALS, trials),
            "learning_rate_range": [rates[0], min(HIGHEST_RATE, rates[1])],
        },
    }


def rivals() -> tuple[str, ...]:
    """Return methods that can change attention and follow a budget.

    Those that add content of their own, such as demonstrations, are not among them: what they show
    is another question.
    """
    every = ((name, METHODS.get(name)) for name in METHODS.names())
    return tuple(
        name
        for name, method in every
        if method.size_knob is not None
        and method.first_layer_attention == "can_change"
        and not method.moves_content
    )
