"""The sentences of a diagnosis: its finding, and facts behind it."""

from collections.abc import Iterator, Sequence

from adaptlab.comparisons.diagnosis_evidence import DiagnosisEvidence, MethodEvidence, TrialEvidence
from adaptlab.comparisons.diagnosis_measures import (
    best_known,
    has_learned,
    highest_score,
    larger_sizes_trained_as_well,
    loss_of,
    low_loss,
    low_trials,
    mean_best,
    others_that_succeed,
    pinned_still_falls,
    rates_of,
    seeds_of,
    success_bar,
    successes,
)
from adaptlab.comparisons.row_names import first_in_sentence, method_in_sentence
from adaptlab.figures import counted
from adaptlab.plugins.metric import lowest_is_best

WHOLE_FROM = 0.8
"""A method has learned the task, and not only half of it, at this share of the best gain."""


def named(evidence: DiagnosisEvidence) -> str:
    """Return the subject at the start of a sentence, with its equivalents."""
    others = " and ".join(map(method_in_sentence, evidence.equivalent))
    name = first_in_sentence(evidence.subject.method)
    return f"{name} (and {others}, the same function)" if others else name


def learned_in_words(evidence: DiagnosisEvidence) -> str:
    """Return the finding of a method that has learned the task."""
    subject, best = evidence.subject, best_known(evidence)
    seeds = seeds_of(subject)
    learned = {one.seed for one in successes(evidence, [subject])}
    on = f" on {len(learned)} of {counted(len(seeds), 'seed')}" if learned < seeds else ""
    against = "" if best is subject else f"; {score_in_words(evidence, best)}"
    whole = evidence.floor + WHOLE_FROM * (best.score - evidence.floor)
    is_whole = subject.score >= whole or on
    learns = "has learned the task" if is_whole else "learns at least half of the task"
    return f"{named(evidence)} {learns}{on}: {evidence.figure(subject.score)}{against}."


def seeds_in_words(evidence: DiagnosisEvidence, good: Sequence[TrialEvidence]) -> str:
    """Return the finding of a method of which some trials succeed."""
    subject = evidence.subject
    seeds = len({one.seed for one in good})
    return (
        f"{named(evidence)} can learn the task, but not reliably: "
        f"{len(good)} of {counted(len(subject.trials), 'trial')} learn at least half of it, "
        f"in {seeds} of {counted(len(seeds_of(subject)), 'seed')}."
    )


def elsewhere_in_words(evidence: DiagnosisEvidence, other: MethodEvidence) -> str:
    """Return the finding of a method that succeeds when trained otherwise."""
    subject = evidence.subject
    rates, good = rates_of(subject), successes(evidence, [other])
    inside = [one for one in good if rates[0] <= one.learning_rate <= rates[-1]]
    if good and not inside:
        best = max(good, key=lambda one: one.score or 0.0).learning_rate
        how = (
            f"a rate of {best:g} instead of {rates[0]:g} to {rates[-1]:g}, in {other.steps:,} steps"
        )
    elif other.parameters < subject.parameters:
        how = f"{other.parameters:,} instead of {subject.parameters:,} parameters"
    elif other.steps != subject.steps:
        at = "" if other.schedule == subject.schedule else f" at a {other.schedule} rate"
        how = f"{other.steps:,} instead of {subject.steps:,} steps{at}"
    else:
        how = f"a {other.schedule} instead of a {subject.schedule} schedule"
    is_sure = has_learned(evidence, other.score)
    trials = f"{len(good)} of {counted(len(other.trials), 'trial')}"
    return (
        f"{named(evidence)} learns the task with {how}: "
        f"{evidence.figure(other.score) if is_sure else trials}."
    )


def rises_in_words(evidence: DiagnosisEvidence, short: MethodEvidence, long: MethodEvidence) -> str:
    """Return the finding of a method whose score rises with more training."""
    rates = rates_of(long)
    return (
        f"{named(evidence)} is not trained to its end: its score rises from "
        f"{evidence.figure(mean_best(short))} to {evidence.figure(mean_best(long))} with "
        f"{long.steps:,} steps at rates {rates[0]:g} to {rates[-1]:g}."
    )


def overfits_in_words(evidence: DiagnosisEvidence) -> str:
    """Return the finding of a method that fails on new items alone."""
    return (
        f"{named(evidence)} learns its training items, but scores only "
        f"{evidence.figure(evidence.subject.score)} on new ones."
    )


def not_reached_in_words(evidence: DiagnosisEvidence) -> str:
    """Return the finding of a method that fails wherever it was trained."""
    tried = (*evidence.same, *larger_sizes_trained_as_well(evidence))
    count = sum(len(one.trials) for one in tried)
    other = max(others_that_succeed(evidence), key=lambda one: one.score)
    return (
        f"Not reached here by {_lowered(named(evidence), evidence)}: 0 of "
        f"{counted(count, 'trial')} {_beyond(evidence)} {evidence.figure(highest_score(tried))}, "
        f"while {score_in_words(evidence, other)}{_size(other)}."
    )


def too_small_in_words(evidence: DiagnosisEvidence, larger: MethodEvidence) -> str:
    """Return the finding of a method that succeeds at a larger size alone."""
    subject, most = evidence.subject, highest_score(evidence.same)
    return (
        f"{named(evidence)} is too small for the task: {evidence.figure(larger.score)} with "
        f"{larger.parameters:,} parameters, at {_most(evidence)} {evidence.figure(most)} with "
        f"{subject.parameters:,}."
    )


def refutation_in_words(evidence: DiagnosisEvidence) -> str:
    """Return what would refute that the task is not reached."""
    return (
        f"A trial of {method_in_sentence(evidence.subject.method)} {_beyond(evidence)} "
        f"{evidence.figure(success_bar(evidence))} on held-out items would refute this."
    )


def _beyond(evidence: DiagnosisEvidence) -> str:
    return "below" if lowest_is_best(evidence.metric) else "above"


def _most(evidence: DiagnosisEvidence) -> str:
    return "least" if lowest_is_best(evidence.metric) else "most"


def _lowered(name: str, evidence: DiagnosisEvidence) -> str:
    first = first_in_sentence(evidence.subject.method)
    return method_in_sentence(evidence.subject.method) + name.removeprefix(first)


def score_in_words(evidence: DiagnosisEvidence, method: MethodEvidence) -> str:
    """Return the score of a method as a clause."""
    return f"{method_in_sentence(method.method)} scores {evidence.figure(method.score)}"


def _size(method: MethodEvidence) -> str:
    """Return the size of a method as a phrase, empty if its name has it."""
    count = f"{method.parameters:,}"
    return "" if method.method.endswith(f" at {count}") else f" with {count} parameters"


def _score(evidence: DiagnosisEvidence, method: MethodEvidence) -> str:
    name = first_in_sentence(method.method)
    return f"{name}{_size(method)} scores {evidence.figure(method.score)} on the test items."


def facts(evidence: DiagnosisEvidence) -> tuple[str, ...]:
    """Return the evidence as short sentences, the most telling first."""
    best = best_known(evidence)
    others = [one for one in (evidence.reference, best) if one is not None]
    shown = {one.method: one for one in (evidence.subject, *others)}
    return (
        *(_score(evidence, one) for one in shown.values()),
        f"The floor, which needs no training, is {evidence.figure(evidence.floor)}.",
        *(_trials(evidence, one) for one in evidence.same),
        *(_trials(evidence, one, f"{one.parameters:,} parameters, ") for one in evidence.sizes),
        *_training_items(evidence),
        *_rival(evidence),
        *_pinned(evidence),
    )


def _trials(evidence: DiagnosisEvidence, method: MethodEvidence, size: str = "") -> str:
    rates = rates_of(method)
    span = f"{rates[0]:g} to {rates[-1]:g}" if len(rates) > 1 else f"{rates[0]:g}"
    best = highest_score([method])
    lost = sum(one.final_loss is None for one in method.trials)
    diverged = f", {lost} diverged" if lost else ""
    return (
        f"{size}{method.steps:,} steps, rates {span}, "
        f"{counted(len(seeds_of(method)), 'seed')}: best of "
        f"{counted(len(method.trials), 'trial')} {evidence.figure(best)} on held-out "
        f"items{diverged}."
    )


def _training_items(evidence: DiagnosisEvidence) -> Iterator[str]:
    """Yield the number of trials that have learned their training items."""
    if low := low_trials(evidence):
        yield (
            f"{len(low)} of {counted(len(evidence.subject.trials), 'trial')} learn their training "
            f"items: losses of {min(map(loss_of, low)):.2f} to {max(map(loss_of, low)):.2f} nats, "
            f"low below {low_loss(evidence):.2f}."
        )


def _rival(evidence: DiagnosisEvidence) -> Iterator[str]:
    if others := others_that_succeed(evidence):
        yield _score(evidence, max(others, key=lambda one: one.score))


def _pinned(evidence: DiagnosisEvidence) -> Iterator[str]:
    """Yield the finding of the pinned-attention reference, if it applies."""
    subject, pinned = evidence.subject, evidence.pinned
    if pinned is None or not subject.pins_attention:
        return
    score = evidence.figure(pinned.score)
    if has_learned(evidence, pinned.score):
        yield (
            "A need for a new attention pattern in the first layer does not explain the failure: "
            f"without one, fine-tuning scores {score}."
        )
        if subject.restriction:
            yield f"What remains: {subject.restriction}."
    elif pinned_still_falls(evidence):
        yield (
            f"With the first layer's attention pinned, fine-tuning scores {score}, with a loss "
            "that still falls."
        )
    else:
        yield (
            f"With the first layer's attention pinned, fine-tuning scores {score}, as it would if "
            "the task needed a new pattern there."
        )
