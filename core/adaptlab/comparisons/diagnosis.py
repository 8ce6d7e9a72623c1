"""Why a method failed, as far as measurements tell: reach, optimisation, generalisation.

A diagnosis from measurements, not a proof: every rule is a threshold on a number, the numbers are
cited in the text, whatever was not measured is named, and so is the run that would supply it.
"""

from collections.abc import Sequence
from typing import Literal

from adaptlab.comparisons.diagnosis_evidence import Evidence
from adaptlab.comparisons.diagnosis_measures import (
    LEAST_SEEDS,
    SUCCEEDS_FROM,
    TWICE,
    base_has_learned,
    best_of_seeds,
    ended_seeds,
    has_learned,
    high_loss,
    is_bracketed_above,
    is_bracketed_below,
    is_low,
    is_luck,
    larger_sizes,
    larger_sizes_trained_as_well,
    loss_curves,
    loss_of,
    low_loss,
    lowest,
    mean_best,
    of_twice_the_steps,
    others_that_succeed,
    seeds_of,
    steps_change_something,
    still_falls,
    succeeds,
    task_is_learnable,
)
from adaptlab.comparisons.diagnosis_next import extension
from adaptlab.comparisons.diagnosis_words import (
    accuracy_in_words,
    control_in_words,
    grounds_in_words,
    losses_in_words,
    named_seeds,
    overfitting_in_words,
    reference_in_words,
    successes_in_words,
)
from adaptlab.plugins.method import METHODS
from adaptlab.values import Value

Cause = Literal["none", "reach", "optimisation", "generalisation", "undecided"]
LABEL = "Diagnosis from measurements, not a proof."


class Diagnosis(Value):
    """The most likely cause of a failure; `none` when the method has learned the task.

    `text` cites the numbers on which it rests; `reasons` gives them one by one, and `missing` what
    was not measured and would decide it. `next_run` is the extension of a study that would supply
    it, None where nothing is missing. `equivalent` are rows that compute the same function and
    whose trials count here as well.
    """

    method: str
    cause: Cause
    label: str = LABEL
    text: str
    reasons: tuple[str, ...]
    missing: tuple[str, ...] = ()
    next_run: dict[str, object] | None = None
    equivalent: tuple[str, ...] = ()


def attention_controls() -> tuple[str, ...]:
    """The references that train the base but cannot change the first layer's attention."""
    return tuple(name for name in METHODS.names() if METHODS.get(name).is_attention_control)


def diagnose(evidence: Evidence) -> Diagnosis:
    """Why `evidence.subject` failed, by rules that are tried in this order.

    1. *none*: its test accuracy is at least half of the reference's, above chance.
    2. *undecided*: nothing shows that the task can be learned with this training (no reference,
       or one that failed too), or every trial diverged.
    3. *optimisation*: some trial has learned the task on held-out items, or the same configuration
       has with other steps, or a smaller size of it, which the larger contains.
    4. *generalisation*: in several seeds training losses are low and held-out items fail.
    5. *reach*: several seeds; rates that bracket an optimum; a constant schedule; losses at rest,
       also at twice the steps; a larger size that fails as well; another method, without the
       subject's restriction, that succeeds at equal budget; a base that has learned its own
       tasks, if it has any; and the pinned-attention reference, for a method that cannot change
       the first layer's attention.
    6. *undecided*, with what speaks against reach or is missing for it.
    """
    subject, reference = evidence.subject, evidence.reference
    if reference is None:
        if subject.test_accuracy >= SUCCEEDS_FROM:
            return _answer(evidence, "none", [accuracy_in_words(subject)])
        missing = ("a reference such as full fine-tuning, to show that the task can be learned",)
        return _answer(evidence, "undecided", [accuracy_in_words(subject)], missing)
    if has_learned(evidence, subject.test_accuracy):
        return _answer(evidence, "none", [accuracy_in_words(subject), accuracy_in_words(reference)])
    if not task_is_learnable(evidence):
        failed = f"the reference fails too: {accuracy_in_words(reference)}"
        return _answer(evidence, "undecided", [accuracy_in_words(subject), failed])
    return _failure(evidence)


def _failure(evidence: Evidence) -> Diagnosis:
    """The cause of a failure on a task that the reference has learned."""
    subject = evidence.subject
    ended = [one for one in subject.trials if one.final_loss is not None]
    if not ended:
        return _answer(evidence, "undecided", ["every trial diverged, or none was trained"])
    good = [one for one in ended if succeeds(evidence, one)]
    if good and not is_luck(evidence, good):
        return _answer(evidence, "optimisation", successes_in_words(evidence, good))
    if elsewhere := _succeeds_elsewhere(evidence):
        return _answer(evidence, "optimisation", [accuracy_in_words(subject), *elsewhere])
    low = [one for one in ended if is_low(evidence, one)]
    seeds = {one.seed for one in low}
    if len(seeds) >= LEAST_SEEDS and 2 * len(seeds) > len(seeds_of(subject)):
        return _answer(evidence, "generalisation", overfitting_in_words(evidence, low))
    return _reach_or_undecided(evidence)


def _succeeds_elsewhere(evidence: Evidence) -> list[str]:
    """Runs of the subject with other steps, or smaller ones, that have learned the task."""
    subject, found = evidence.subject, list[str]()
    for one in evidence.durations:
        if has_learned(evidence, one.test_accuracy):
            found.append(
                f"with {one.steps:,} instead of {subject.steps:,} steps {accuracy_in_words(one)}"
            )
    for one in evidence.sizes:
        if one.parameters <= subject.parameters and has_learned(evidence, one.test_accuracy):
            found.append(
                f"a configuration of it that is no larger succeeds: {accuracy_in_words(one)}"
            )
    return found


def _reach_or_undecided(evidence: Evidence) -> Diagnosis:
    against, needed = _against_reach(evidence), _missing_for_reach(evidence)
    reasons = [
        accuracy_in_words(evidence.subject),
        reference_in_words(evidence),
        losses_in_words(evidence),
    ]
    control = control_in_words(evidence)
    if against or needed:
        return _answer(evidence, "undecided", [*reasons, *against, *control], tuple(needed))
    return _answer(evidence, "reach", [*reasons, *grounds_in_words(evidence), *control])


def _against_reach(evidence: Evidence) -> list[str]:
    """What was measured and speaks against reach."""
    subject, found = evidence.subject, list[str]()
    for one in subject.trials:
        if one.final_loss is not None and succeeds(evidence, one):
            found.append(
                f"one trial alone has {one.accuracy or 0:.1%} of its held-out items right, at a "
                f"training loss of {one.final_loss:.2f} nats"
            )
    if not_high := [one for one in subject.trials if loss_of(one) < high_loss(evidence)]:
        found.append(
            f"{len(not_high)} of {len(subject.trials)} trials end below the loss that counts as "
            f"high, with {lowest(not_high):.2f}, and training items count as learned below "
            f"{low_loss(evidence):.2f} in at least {LEAST_SEEDS} seeds"
        )
    if falling := [one for one in best_of_seeds(subject) if still_falls(evidence, one)]:
        one = falling[0]
        found.append(
            f"the loss of seed {one.seed} was still falling, from {one.half_loss:.2f} at half of "
            f"the training to {one.final_loss:.2f}"
        )
    found += _others_against_reach(evidence)
    if evidence.base is not None and not base_has_learned(evidence.base):
        found.append(
            f"the base model has only {evidence.base.accuracy:.1%} of the items of its own tasks "
            "right, so that the failure may be the base's"
        )
    return found


def _others_against_reach(evidence: Evidence) -> list[str]:
    """Other trainings that speak against reach."""
    subject, found = evidence.subject, list[str]()
    for one in of_twice_the_steps(evidence):
        if steps_change_something(evidence, one):
            found.append(
                f"steps make a difference: its mean lowest loss is {mean_best(subject):.2f} nats "
                f"after {subject.steps:,} steps and {mean_best(one):.2f} after {one.steps:,}"
            )
    for one in larger_sizes(evidence):
        if has_learned(evidence, one.test_accuracy):
            found.append(f"what is missing is size: {accuracy_in_words(one)}")
    for one in others_that_succeed(evidence, is_bound_alike=True):
        found.append(f"a method with the same restriction succeeds: {accuracy_in_words(one)}")
    return found


def _missing_for_reach(evidence: Evidence) -> list[str]:
    """What reach has to rest on and was not measured."""
    subject, found = evidence.subject, list[str]()
    if len(seeds := ended_seeds(subject)) < LEAST_SEEDS:
        found.append(f"seeds: {len(seeds)} instead of at least {LEAST_SEEDS}")
    found += _unbracketed(evidence)
    if subject.schedule != "constant":
        found.append(f"a constant schedule: with {subject.schedule} every training comes to rest")
    if any(one.half_loss is None for one in best_of_seeds(subject)):
        found.append("the training loss at half of the training, to see that it came to rest")
    if not of_twice_the_steps(evidence):
        found.append(
            f"the same configuration at a constant rate for {TWICE * subject.steps:,} steps, "
            f"{TWICE} times as many, to see that they change nothing"
        )
    if subject.grows and not larger_sizes_trained_as_well(evidence):
        found.append(f"a larger size, of {TWICE * subject.parameters:,} parameters or more")
    if not others_that_succeed(evidence):
        found.append(
            f"another method with at most {subject.parameters:,} parameters that succeeds, to "
            "show that the budget is not too small"
        )
    if evidence.base_has_tasks and evidence.base is None:
        found.append(
            "the score of the base model alone on its own tasks, to see that the failure is not "
            "the base's"
        )
    if subject.pins_attention and evidence.pinned is None:
        found.append(
            f"{' or '.join(attention_controls())}, to see whether the task can be learned without "
            "a new attention pattern in the first layer"
        )
    return found


def _unbracketed(evidence: Evidence) -> list[str]:
    """The end of the sweep beyond which the best rate may be, with the seeds of which it may."""
    curves = loss_curves(evidence.subject)
    rates = sorted({rate for curve in curves.values() for rate in curve})
    lower = [seed for seed, of in curves.items() if not is_bracketed_below(evidence, of)]
    upper = [seed for seed, of in curves.items() if not is_bracketed_above(evidence, of)]
    found = list[str]()
    for name, end, seeds in (("lower", rates[:1], lower), ("upper", rates[-1:], upper)):
        if seeds:
            found.append(
                f"rates beyond the {name} end of those that came to an end, {end[0]:g}: of "
                f"{named_seeds(seeds)} the loss there is not worse than within"
            )
    return found


_OPENINGS: dict[Cause, str] = {
    "none": "{} has learned the task",
    "reach": "{} does not reach the task at the sizes, rates and steps tried",
    "optimisation": "{} could do the task, but training does not find it reliably",
    "generalisation": "{} learns its training items and fails on new ones",
    "undecided": "Why {} fails is not decided",
}


def _answer(
    evidence: Evidence, cause: Cause, reasons: Sequence[str], missing: tuple[str, ...] = ()
) -> Diagnosis:
    subject, same = evidence.subject, evidence.equivalent
    named = f"{subject.method}, one function with {', '.join(same)}," if same else subject.method
    lacking = f" Not measured: {'; '.join(missing)}." if missing else ""
    return Diagnosis(
        method=subject.method,
        cause=cause,
        text=f"{_OPENINGS[cause].format(named)}: {'; '.join(reasons)}.{lacking} {LABEL}",
        reasons=tuple(reasons),
        missing=missing,
        next_run=(_next_run(evidence) or None) if cause == "undecided" and missing else None,
        equivalent=same,
    )


def _next_run(evidence: Evidence) -> dict[str, object]:
    """The extension of a study that would supply what reach lacks.

    Empty if that is the score of the base model alone, which comes with every job.
    """
    subject = evidence.subject
    if evidence.reference is None:
        return extension(references=("full_finetuning",))
    curves = loss_curves(subject).values()
    rates = sorted({one.learning_rate for one in subject.trials})
    low = any(not is_bracketed_below(evidence, of) for of in curves)
    high = any(not is_bracketed_above(evidence, of) for of in curves)
    is_sweep_bad = low or high or subject.schedule != "constant"
    needs_steps = is_sweep_bad or not of_twice_the_steps(evidence)
    lacking = LEAST_SEEDS - len(ended_seeds(subject))
    return extension(
        configuration=subject.configuration,
        label=subject.method,
        steps=(*((subject.steps,) if is_sweep_bad else ()), TWICE * subject.steps)
        if needs_steps
        else (),
        rates=(rates[0] / (10 if low else 1), rates[-1] * (10 if high else 1)),
        trials=len(rates) + 2 * low + 2 * high,
        budget=TWICE * subject.parameters
        if subject.grows and not larger_sizes_trained_as_well(evidence)
        else None,
        seeds=len(seeds_of(subject)) + lacking if lacking > 0 else None,
        references=attention_controls() if subject.pins_attention and not evidence.pinned else (),
        rival=not others_that_succeed(evidence),
    )
