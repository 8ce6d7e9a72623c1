"""Training, and trials of a seed: rates, weight decays, initial scales.

The effort of a job is its number of trials and never changes silently. A number that the lists
cannot produce is rejected, with the nearest number that they can.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import counted
from adaptlab.plugins.family import Family
from adaptlab.plugins.method import Method, log_spaced
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.halving import halving_problems
from adaptlab.specs.spec import (
    MOST_TRIALS,
    Halving,
    ResolvedTraining,
    TrainingSpec,
    Trial,
    TuningSpec,
)
from adaptlab.values import AUTO


def tuned_training(
    training: TrainingSpec, tuning: TuningSpec, method: Method, shape: ModelShape
) -> ResolvedTraining:
    """Return the training of a method with its trials.

    Raises:
        InvalidSpec: the settings contradict each other; pointers are into the spec.
    """
    trials = resolve_trials(training, tuning, method, shape)
    return _resolved(training, trials, tuning.halving)


def plain_training(training: TrainingSpec, family: Family) -> ResolvedTraining:
    """Return the training of a whole model with a single trial.

    Learning rate and weight decay are the family's by default.
    """
    rate, decay = training.learning_rate, training.weight_decay
    trial = Trial(
        learning_rate=family.default_learning_rate if rate == AUTO else rate,
        weight_decay=family.default_weight_decay if decay == AUTO else decay,
    )
    return _resolved(training, (trial,))


def _resolved(
    training: TrainingSpec, trials: tuple[Trial, ...], halving: Halving | None = None
) -> ResolvedTraining:
    halved = halving_problems(training.steps, len(trials), halving)
    if problems := (*_training_problems(training), *halved):
        raise InvalidSpec(*problems)
    return ResolvedTraining(
        trials=trials,
        halving=halving,
        **training.model_dump(exclude={"learning_rate", "weight_decay"}),
    )


def resolve_trials(
    training: TrainingSpec, tuning: TuningSpec, method: Method, shape: ModelShape
) -> tuple[Trial, ...]:
    """Return the product of rates, decays and scales, rates outermost.

    If the spec names no rates, their number follows from the number of trials. They are log-spaced
    over the spec's range or the method's own.

    Raises:
        InvalidSpec: the settings contradict each other; pointers are into the spec.
    """
    if problems := (*_problems(training, tuning), *_scale_problems(tuning, method, shape)):
        raise InvalidSpec(*problems)
    automatic = method.default_weight_decay
    decay = automatic if training.weight_decay == AUTO else training.weight_decay
    decays, scales = tuning.weight_decays or (decay,), tuning.initial_scales or (1.0,)
    rates = _given_rates(training, tuning)
    combinations = len(decays) * len(scales)
    if rates is None:
        rates = _spread_rates(tuning, method, shape, combinations)
    elif tuning.trials not in (AUTO, len(rates) * combinations):
        raise InvalidSpec(_other_number(tuning.trials, len(rates), combinations))
    _check_number(len(rates) * combinations)
    return tuple(
        Trial(learning_rate=rate, weight_decay=decay, initial_scale=scale)
        for rate, decay, scale in product(rates, decays, scales)
    )


def _given_rates(training: TrainingSpec, tuning: TuningSpec) -> tuple[float, ...] | None:
    """Return the rates that the spec names, None if it leaves them open."""
    if training.learning_rate != AUTO:
        return (training.learning_rate,)
    return tuning.learning_rates


def _spread_rates(
    tuning: TuningSpec, method: Method, shape: ModelShape, combinations: int
) -> tuple[float, ...]:
    trials = combinations if tuning.trials == AUTO else tuning.trials
    if trials % combinations:
        raise InvalidSpec(_no_multiple(trials, combinations))
    count = trials // combinations
    if tuning.learning_rate_range is None:
        return method.learning_rates(count, shape)
    return log_spaced(*tuning.learning_rate_range, count)


def _problems(training: TrainingSpec, tuning: TuningSpec) -> Iterator[Problem]:
    """Yield contradictions in the settings."""
    is_fixed = training.learning_rate != AUTO
    for name, value, other, is_fixed_there in (
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
        if value and is_fixed_there:
            detail = f"{other} is also set. Leave one of the two out."
            yield Problem(f"/tuning/{name}", "given_twice", detail)
    for name in ("learning_rates", "weight_decays", "initial_scales"):
        yield from _repeated(f"/tuning/{name}", getattr(tuning, name) or ())
    low, high = tuning.learning_rate_range or (0.0, 1.0)
    if low >= high:
        detail = (
            f"The range goes from {low:g} to {high:g}, but its first end must be below its second. "
            "Give the lower rate first."
        )
        yield Problem("/tuning/learning_rate_range", "empty_range", detail)


def _repeated(pointer: str, values: Sequence[float]) -> Iterator[Problem]:
    for index, value in enumerate(values):
        if value in values[:index]:
            detail = f"{value:g} occurs twice, which would repeat a trial. Leave one out."
            yield Problem(f"{pointer}/{index}", "repeated", detail)


def _scale_problems(tuning: TuningSpec, method: Method, shape: ModelShape) -> Iterator[Problem]:
    """Yield the problem of scales without effect, which would repeat trials."""
    if not tuning.initial_scales:
        return
    tensors = method.trained(shape).values()
    if not any(tensor.initialiser.is_random for tensor in tensors):
        detail = (
            f"No tensor of {method.name} starts at random, so there is nothing to scale. Leave "
            "the initial scales out."
        )
        yield Problem("/tuning/initial_scales", "nothing_to_scale", detail)


def _other_number(trials: int, rates: int, combinations: int) -> Problem:
    product = rates * combinations
    detail = (
        f"{counted(rates, 'learning rate')} and {counted(combinations, 'combination')} of weight "
        f"decay and initial scale give {counted(product, 'trial')}, not {trials}. Set trials to "
        f"{product}, change the lists, or leave the learning rate open."
    )
    return Problem("/tuning/trials", "other_number_of_trials", detail, nearest=(product,))


def _no_multiple(trials: int, combinations: int) -> Problem:
    below = trials // combinations * combinations
    nearest = tuple(n for n in (below, below + combinations) if 0 < n <= MOST_TRIALS)
    detail = (
        f"Every learning rate is tried with {combinations} combinations of weight decay and "
        f"initial scale, and {trials} trials are not a multiple of that. Use a multiple of "
        f"{combinations}."
    )
    return Problem("/tuning/trials", "other_number_of_trials", detail, nearest=nearest)


def _check_number(trials: int) -> None:
    if trials > MOST_TRIALS:
        detail = (
            f"The lists give {trials:,} trials per seed. The limit is {MOST_TRIALS}. Shorten them."
        )
        raise InvalidSpec(Problem("/tuning", "too_many_trials", detail, nearest=(MOST_TRIALS,)))


def _training_problems(training: TrainingSpec) -> Iterator[Problem]:
    """Yield the problems of a training, with the nearest valid values."""
    size, parts = training.batch_size, training.accumulation
    if size % parts:
        nearest = _nearest_divisors(size, parts)
        divisors = " or ".join(str(divisor) for divisor in nearest)
        detail = (
            f"A batch of {size} items cannot be split into {parts} equal parts. Use {divisors}."
        )
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
    """Return the divisors of `number` next to `near`, which is not a divisor."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    below = [d for d in divisors if d < near][-1:]
    return (*below, *[d for d in divisors if d > near][:1])
