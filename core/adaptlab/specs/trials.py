"""The trials of a seed: which learning rates, weight decays and initial scales are tried.

The effort of a job is its number of trials, and it never silently shrinks or grows: a number that
the knobs given cannot make is refused with the nearest that they can.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.method import Method, log_spaced
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.spec import MOST_TRIALS, TrainingSpec, Trial, TuningSpec
from adaptlab.values import AUTO
from adaptlab.wording import counted


def resolve_trials(
    training: TrainingSpec, tuning: TuningSpec, method: Method, shape: ModelShape
) -> tuple[Trial, ...]:
    """The product of rates, decays and scales, the rates outermost.

    Where no rate is given, there are as many as the number of trials asks for, log-spaced over the
    range given or the method's own. Raises `InvalidSpec` with pointers into the spec.
    """
    if faults := (*_problems(training, tuning), *_scale_problems(tuning, method, shape)):
        raise InvalidSpec(*faults)
    automatic = method.default_weight_decay
    decay = automatic if training.weight_decay == AUTO else training.weight_decay
    decays, scales = tuning.weight_decays or (decay,), tuning.initial_scales or (1.0,)
    rates = _given_rates(training, tuning)
    combinations = len(decays) * len(scales)
    if rates is None:
        rates = _spread_rates(tuning, method, combinations)
    elif tuning.trials not in (AUTO, len(rates) * combinations):
        raise InvalidSpec(_other_number(tuning.trials, len(rates), combinations))
    _check_number(len(rates) * combinations)
    return tuple(
        Trial(learning_rate=rate, weight_decay=decay, initial_scale=scale)
        for rate, decay, scale in product(rates, decays, scales)
    )


def _given_rates(training: TrainingSpec, tuning: TuningSpec) -> tuple[float, ...] | None:
    """The rates that the spec names, None where they are to be spread over a range."""
    if training.learning_rate != AUTO:
        return (training.learning_rate,)
    return tuning.learning_rates


def _spread_rates(tuning: TuningSpec, method: Method, combinations: int) -> tuple[float, ...]:
    trials = combinations if tuning.trials == AUTO else tuning.trials
    if trials % combinations:
        raise InvalidSpec(_no_multiple(trials, combinations))
    count = trials // combinations
    if tuning.learning_rate_range is None:
        return method.learning_rates(count)
    return log_spaced(*tuning.learning_rate_range, count)


def _problems(training: TrainingSpec, tuning: TuningSpec) -> Iterator[Problem]:
    """What contradicts itself."""
    is_fixed = training.learning_rate != AUTO
    for name, given, other, taken in (
        ("learning_rates", tuning.learning_rates, "/training/learning_rate", is_fixed),
        ("learning_rate_range", tuning.learning_rate_range, "/training/learning_rate", is_fixed),
        (
            "learning_rate_range",
            tuning.learning_rate_range,
            "/tuning/learning_rates",
            tuning.learning_rates is not None and not is_fixed,
        ),
        (
            "weight_decays",
            tuning.weight_decays,
            "/training/weight_decay",
            training.weight_decay != AUTO,
        ),
    ):
        if given and taken:
            detail = f"{other} is given too. Leave one of the two out."
            yield Problem(f"/tuning/{name}", "given_twice", detail)
    for name in ("learning_rates", "weight_decays", "initial_scales"):
        yield from _repeated(f"/tuning/{name}", getattr(tuning, name) or ())
    low, high = tuning.learning_rate_range or (0.0, 1.0)
    if low >= high:
        detail = (
            f"The range must go from its lower to its higher end, not from {low:g} to {high:g}."
        )
        yield Problem("/tuning/learning_rate_range", "empty_range", detail)


def _repeated(pointer: str, values: Sequence[float]) -> Iterator[Problem]:
    for index, value in enumerate(values):
        if value in values[:index]:
            detail = f"{value:g} occurs twice. Leave one out: it would repeat a trial."
            yield Problem(f"{pointer}/{index}", "repeated", detail)


def _scale_problems(tuning: TuningSpec, method: Method, shape: ModelShape) -> Iterator[Problem]:
    """Scales that would change nothing would make trials that are all the same."""
    if not tuning.initial_scales:
        return
    tensors = method.tensors(shape).values()
    if not any(tensor.initialiser.is_random for tensor in tensors):
        detail = (
            f"No tensor of {method.name} starts at random, so there is nothing to scale. Leave "
            "it out."
        )
        yield Problem("/tuning/initial_scales", "nothing_to_scale", detail)


def _other_number(trials: int, rates: int, combinations: int) -> Problem:
    made = rates * combinations
    detail = (
        f"{counted(rates, 'learning rate')} and {counted(combinations, 'combination')} of weight "
        f"decay and initial scale make {counted(made, 'trial')}, not {trials}; ask for {made}, "
        "give other lists, or leave the learning rate open."
    )
    return Problem("/tuning/trials", "other_number_of_trials", detail, nearest=(made,))


def _no_multiple(trials: int, combinations: int) -> Problem:
    below = trials // combinations * combinations
    nearest = tuple(n for n in (below, below + combinations) if 0 < n <= MOST_TRIALS)
    detail = (
        f"Every learning rate is tried with {combinations} combinations of weight decay and "
        f"initial scale, which {trials} trials do not allow. Use a multiple of {combinations}."
    )
    return Problem("/tuning/trials", "other_number_of_trials", detail, nearest=nearest)


def _check_number(made: int) -> None:
    if made > MOST_TRIALS:
        detail = f"The lists make {made} trials per seed. The limit is {MOST_TRIALS}. Shorten them."
        raise InvalidSpec(Problem("/tuning", "too_many_trials", detail, nearest=(MOST_TRIALS,)))


def training_problems(training: TrainingSpec) -> Iterator[Problem]:
    """What of the training cannot be done, with the nearest that can."""
    size, parts = training.batch_size, training.accumulation
    if size % parts:
        detail = f"A batch of {size} items cannot be split into {parts} equal parts."
        nearest = _nearest_divisors(size, parts)
        yield Problem("/training/accumulation", "unequal_parts", detail, nearest=nearest)
    stopping = training.early_stopping
    if stopping is not None and training.validations <= stopping.patience:
        detail = (
            f"With {training.validations} validations, a patience of {stopping.patience} can "
            "never end the training early. Validate more often, or lower the patience."
        )
        yield Problem(
            "/training/early_stopping/patience",
            "never_stops",
            detail,
            nearest=(training.validations - 1,) if training.validations > 1 else (),
        )


def _nearest_divisors(number: int, near: int) -> tuple[int, ...]:
    """The divisors of a number right below and above one that is none."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    below = [d for d in divisors if d < near][-1:]
    return (*below, *[d for d in divisors if d > near][:1])
