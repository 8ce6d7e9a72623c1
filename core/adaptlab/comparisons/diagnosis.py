"""The likely cause of a failure: reach, optimisation or generalisation.

A diagnosis rests on measurements and is not a proof. Every rule is a threshold on a number. The
text cites the numbers, and names what was not measured and the run that would supply it.
"""

from collections.abc import Sequence
from typing import Literal

from adaptlab.comparisons.comparison_warnings import named_seeds
from adaptlab.comparisons.diagnosis_evidence import Evidence, MethodEvidence
from adaptlab.comparisons.diagnosis_measures import (
    LEAST_SEEDS,
    SUCCEEDS_FROM,
    TWICE,
    base_has_learned,
    best_of_seeds,
    ended_seeds,
    has_learned,
    has_learned_partly,
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
from adaptlab.comparisons.diagnosis_next import extension, rivals
from adaptlab.comparisons.diagnosis_words import (
    accuracy_in_words,
    attention_control_in_words,
    losses_in_words,
    reasons_for_generalisation,
    reasons_for_optimisation,
    reasons_for_reach,
    reference_in_words,
)
from adaptlab.comparisons.row_names import method_in_sentence, starting
from adaptlab.figures import counted, percent
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.sizing import TOKENS
from adaptlab.values import Value

Cause = Literal["none", "reach", "optimisation", "generalisation", "undecided"]
LABEL = "Diagnosis from measurements, not a proof."


class Diagnosis(Value):
    """The likely cause of a failure; `none` if the task was learned.

    `text` cites the numbers behind it, which `reasons` lists one by one. `missing` lists
    measurements that would decide it, and `next_run` is the extension of a study that would supply
    them, None if nothing is missing. `equivalent` are rows that compute the same function, whose
    trials count here too.
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
    """Return the references that keep the first layer's attention."""
    return tuple(name for name in METHODS.names() if METHODS.get(name).is_attention_control)


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return the cause of a failure, by the first rule that applies.

    1. *none*: its test accuracy, above chance, is at least half of the reference's.
    2. *undecided*: nothing shows that the task can be learned with this training (no reference,
       or one that failed too), or every trial diverged.
    3. *optimisation*: some trial has learned the task on held-out items; or the same configuration
       has with another number of steps, or at a smaller size, which the larger one contains.
    4. *generalisation*: in several seeds, training losses are low and held-out items fail.
    5. *reach*: several seeds; rates that bracket an optimum; a constant schedule; losses at rest,
       also at twice the steps; a larger size that fails too; another method, without the subject's
       restriction, that succeeds at equal budget; a base that has learned its own tasks, if it has
       any; and the pinned-attention reference, for a method that cannot change the first layer's
       attention.
    6. *undecided*, with the evidence against reach and the measurements that are missing for it.
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
    """Return the cause of a failure on a task that the reference has learned."""
    subject = evidence.subject
    ended = [trial for trial in subject.trials if trial.final_loss is not None]
    if not ended:
        return _answer(evidence, "undecided", ["every trial diverged, or none was trained"])
    good = [trial for trial in ended if succeeds(evidence, trial)]
    if good and not is_luck(evidence, good):
        return _answer(evidence, "optimisation", reasons_for_optimisation(evidence, good))
    if elsewhere := _succeeds_elsewhere(evidence):
        return _answer(evidence, "optimisation", [accuracy_in_words(subject), *elsewhere])
    low = [trial for trial in ended if is_low(evidence, trial)]
    seeds = {trial.seed for trial in low}
    if len(seeds) >= LEAST_SEEDS and 2 * len(seeds) > len(seeds_of(subject)):
        return _answer(evidence, "generalisation", reasons_for_generalisation(evidence, low))
    return _reach_or_undecided(evidence)


def _succeeds_elsewhere(evidence: Evidence) -> list[str]:
    """Return a clause per other run that has learned the task.

    These are runs with other steps or at a smaller size.
    """
    subject, clauses = evidence.subject, list[str]()
    for other in evidence.durations:
        if has_learned(evidence, other.test_accuracy):
            clauses.append(
                f"with {other.steps:,} instead of {subject.steps:,} steps, "
                f"{accuracy_in_words(other)}"
            )
    for other in evidence.sizes:
        if other.parameters <= subject.parameters and has_learned(evidence, other.test_accuracy):
            clauses.append(
                f"a configuration of it that is no larger succeeds: {accuracy_in_words(other)}"
            )
    return clauses


def _reach_or_undecided(evidence: Evidence) -> Diagnosis:
    against, needed = _against_reach(evidence), _missing_for_reach(evidence)
    reasons = [
        accuracy_in_words(evidence.subject),
        reference_in_words(evidence),
        losses_in_words(evidence),
    ]
    control = attention_control_in_words(evidence)
    if against or needed:
        return _answer(evidence, "undecided", [*reasons, *against, *control], tuple(needed))
    return _answer(evidence, "reach", [*reasons, *reasons_for_reach(evidence), *control])


def _against_reach(evidence: Evidence) -> list[str]:
    """Return the measurements that speak against reach, as clauses."""
    subject, clauses = evidence.subject, list[str]()
    for trial in subject.trials:
        if trial.final_loss is not None and succeeds(evidence, trial):
            clauses.append(
                f"a single trial scores {percent(trial.accuracy or 0)} on held-out items, at a "
                f"training loss of {trial.final_loss:.2f} nats"
            )
    if not_high := [trial for trial in subject.trials if loss_of(trial) < high_loss(evidence)]:
        clauses.append(
            f"{len(not_high)} of {counted(len(subject.trials), 'trial')} end below the loss that "
            f"counts as high (the lowest at {lowest(not_high):.2f} nats), but training items count "
            f"as learned only below {low_loss(evidence):.2f} nats in at least {LEAST_SEEDS} seeds"
        )
    if falling := [trial for trial in best_of_seeds(subject) if still_falls(evidence, trial)]:
        trial = falling[0]
        clauses.append(
            f"the loss of seed {trial.seed} was still falling, from {trial.half_loss:.2f} nats "
            f"half way through the training to {trial.final_loss:.2f} nats"
        )
    clauses += _others_against_reach(evidence)
    if evidence.base is not None and not base_has_learned(evidence.base):
        clauses.append(
            f"the base model scores only {percent(evidence.base.accuracy)} on its own tasks, so "
            "the failure may be due to the base"
        )
    return clauses


def _others_against_reach(evidence: Evidence) -> list[str]:
    """Return a clause per other training that speaks against reach."""
    subject, clauses = evidence.subject, list[str]()
    for other in of_twice_the_steps(evidence):
        if steps_change_something(evidence, other):
            clauses.append(
                f"the number of steps matters: the mean lowest loss is {mean_best(subject):.2f} "
                f"nats after {subject.steps:,} steps and {mean_best(other):.2f} nats after "
                f"{other.steps:,} steps"
            )
    for larger in larger_sizes(evidence):
        if has_learned(evidence, larger.test_accuracy):
            clauses.append(f"a larger size succeeds: {accuracy_in_words(larger)}")
    for other in others_that_succeed(evidence, is_bound_alike=True):
        clauses.append(f"a method with the same restriction succeeds: {accuracy_in_words(other)}")
    return clauses


def _missing_for_reach(evidence: Evidence) -> list[str]:
    """Return the measurements missing for reach, as noun phrases."""
    subject, phrases = evidence.subject, list[str]()
    if len(seeds := ended_seeds(subject)) < LEAST_SEEDS:
        phrases.append(
            f"at least {LEAST_SEEDS} seeds that did not diverge, instead of {len(seeds)}"
        )
    phrases += _unbracketed(evidence)
    if subject.schedule != "constant":
        phrases.append(
            f"a constant schedule, because with {subject.schedule} every training comes to rest"
        )
    if any(trial.half_loss is None for trial in best_of_seeds(subject)):
        phrases.append("the loss half way through the training, to show that it came to rest")
    if not of_twice_the_steps(evidence):
        phrases.append(
            f"the same configuration at a constant rate for {TWICE * subject.steps:,} steps, "
            "twice as many, to show that more steps change nothing"
        )
    if subject.grows and not larger_sizes_trained_as_well(evidence):
        phrases.append(f"a larger size, with {TWICE * subject.parameters:,} parameters or more")
    if not others_that_succeed(evidence):
        phrases.append(
            f"another method with at most {subject.parameters:,} parameters that succeeds, to "
            "show that the budget is not too small"
        )
    if evidence.base_has_tasks and evidence.base is None:
        phrases.append(
            "the score of the base model alone on its own tasks, to show that the failure is not "
            "due to the base"
        )
    if subject.pins_attention and evidence.pinned is None:
        titles = (METHODS.get(name).title for name in attention_controls())
        phrases.append(
            f"{' or '.join(f'{title[0].lower()}{title[1:]}' for title in titles)}, to show "
            "whether the task can be learned without a new attention pattern in the first layer"
        )
    return phrases


def _unbracketed(evidence: Evidence) -> list[str]:
    """Return a phrase per end of the sweep that may hide a better rate."""
    curves = loss_curves(evidence.subject)
    rates = sorted({rate for curve in curves.values() for rate in curve})
    lower = [seed for seed, of in curves.items() if not is_bracketed_below(evidence, of)]
    upper = [seed for seed, of in curves.items() if not is_bracketed_above(evidence, of)]
    phrases = list[str]()
    for side, end, rate, seeds in (
        ("below", "lowest", rates[:1], lower),
        ("above", "highest", rates[-1:], upper),
    ):
        if seeds:
            phrases.append(
                f"learning rates {side} {rate[0]:g}, the {end} that did not diverge, because for "
                f"{named_seeds(seeds)} the loss there is not worse than at the rates between"
            )
    return phrases


_OPENINGS: dict[Cause, str] = {
    "none": "{} has learned the task",
    "reach": "{} does not reach the task at the sizes, learning rates and steps tried",
    "optimisation": "{} can do the task, but training does not find the solution reliably",
    "generalisation": "{} learns its training items but fails on new ones",
    "undecided": "The cause of the failure of {} is undecided",
}
_OF_A_PART = "Why {} learns only part of the task is undecided"


def _answer(
    evidence: Evidence, cause: Cause, reasons: Sequence[str], missing: tuple[str, ...] = ()
) -> Diagnosis:
    subject, same = evidence.subject, evidence.equivalent
    name = method_in_sentence(subject.method)
    if same:
        others = " and ".join(map(method_in_sentence, same))
        name += f", which computes the same function as {others},"
    partly = cause == "undecided" and has_learned_partly(evidence)
    template = _OF_A_PART if partly else _OPENINGS[cause]
    opening = template.format(name)
    if template.startswith("{}"):
        opening = starting(opening, subject.method)
    lacking = f" Not measured: {'; '.join(missing)}." if missing else ""
    return Diagnosis(
        method=subject.method,
        cause=cause,
        text=f"{opening}: {'; '.join(reasons)}.{lacking} {LABEL}",
        reasons=tuple(reasons),
        missing=missing,
        next_run=(_next_run(evidence) or None) if cause == "undecided" and missing else None,
        equivalent=same,
    )


def _next_run(evidence: Evidence) -> dict[str, object]:
    """Return the extension of a study that would supply what reach lacks.

    Empty if that is the score of the base model alone, which is part of every job.
    """
    subject = evidence.subject
    if evidence.reference is None:
        return extension(references=("full_finetuning",))
    curves = loss_curves(subject).values()
    rates = sorted({trial.learning_rate for trial in subject.trials})
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
        budget=_twice_the_size(subject)
        if subject.grows and not larger_sizes_trained_as_well(evidence)
        else None,
        seeds=len(seeds_of(subject)) + lacking if lacking > 0 else None,
        references=attention_controls() if subject.pins_attention and not evidence.pinned else (),
        rival=None if others_that_succeed(evidence) else subject.rival or {"name": rivals()[0]},
    )


def _twice_the_size(subject: MethodEvidence) -> int | dict[str, int]:
    """Return a budget of twice the size, on the axis of the study."""
    if subject.context_tokens is None:
        return TWICE * subject.parameters
    return {TOKENS: TWICE * subject.context_tokens}
