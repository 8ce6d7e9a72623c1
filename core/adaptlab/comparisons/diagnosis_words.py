"""Measurements that a diagnosis cites, as clauses."""

from collections.abc import Sequence

from adaptlab.comparisons.diagnosis_evidence import Evidence, MethodEvidence, TrialEvidence
from adaptlab.comparisons.diagnosis_measures import (
    has_learned,
    high_loss,
    larger_sizes_trained_as_well,
    loss_of,
    low_loss,
    lowest,
    mean_best,
    of_twice_the_steps,
    others_that_succeed,
    seeds_of,
)
from adaptlab.comparisons.row_names import method_in_sentence
from adaptlab.figures import counted, percent


def reasons_for_reach(evidence: Evidence) -> list[str]:
    """Return the evidence for reach besides losses that stay high."""
    subject, twice = evidence.subject, of_twice_the_steps(evidence)[0]
    rates = sorted({trial.learning_rate for trial in subject.trials})
    reasons = [
        f"for every seed, the rates from {rates[0]:g} to {rates[-1]:g} bracket the best one",
        f"at a constant rate, the mean lowest loss is {mean_best(subject):.2f} nats after "
        f"{subject.steps:,} steps and {mean_best(twice):.2f} nats after {twice.steps:,} steps",
    ]
    if larger := larger_sizes_trained_as_well(evidence):
        largest = max(larger, key=lambda method: method.parameters)
        reasons.append(
            f"a size of {largest.parameters:,} parameters fails too: {accuracy_in_words(largest)}"
        )
    other = max(others_that_succeed(evidence), key=lambda method: method.test_accuracy)
    return [*reasons, f"the budget is sufficient for another method: {accuracy_in_words(other)}"]


def attention_control_in_words(evidence: Evidence) -> list[str]:
    """Return the finding of the pinned-attention reference, if it applies."""
    subject, pinned = evidence.subject, evidence.pinned
    if pinned is None or not subject.pins_attention:
        return []
    if has_learned(evidence, pinned.test_accuracy):
        remaining = f"; what remains: {subject.restriction}" if subject.restriction else ""
        return [
            f"the failure is not explained by a need for a new attention pattern in the first "
            f"layer: without one, {accuracy_in_words(pinned)}{remaining}"
        ]
    return [
        f"the pinned-attention reference fails too ({accuracy_in_words(pinned)}), as it would if "
        "the task needed a new attention pattern in the first layer"
    ]


def accuracy_in_words(method: MethodEvidence) -> str:
    """Return the test accuracy of a method as a clause."""
    name = method_in_sentence(method.method)
    return f"{name} scores {percent(method.test_accuracy)} on the test items"


def reference_in_words(evidence: Evidence) -> str:
    """Return the reference's accuracy, which shows what can be learned."""
    assert evidence.reference is not None
    return f"the task can be learned: {accuracy_in_words(evidence.reference)}"


def losses_in_words(evidence: Evidence) -> str:
    """Return the range of the subject's training losses."""
    subject = evidence.subject
    losses = [trial.final_loss for trial in subject.trials if trial.final_loss is not None]
    seeds = counted(len({trial.seed for trial in subject.trials}), "seed")
    rates = counted(len({trial.learning_rate for trial in subject.trials}), "learning rate")
    return (
        f"the training loss of {method_in_sentence(subject.method)} ends between "
        f"{min(losses):.2f} and {max(losses):.2f} nats over {seeds} and {rates} (high from "
        f"{high_loss(evidence):.2f}; chance {evidence.chance_loss:.2f})"
    )


def reasons_for_generalisation(evidence: Evidence, trials: Sequence[TrialEvidence]) -> list[str]:
    """Return the evidence for generalisation: low losses, failing items."""
    held_out = [trial.accuracy for trial in trials if trial.accuracy is not None]
    at_most = f"; their validation accuracy is at most {percent(max(held_out))}" if held_out else ""
    return [
        f"{len(trials)} of {counted(len(evidence.subject.trials), 'trial')} end at a training loss "
        f"of {lowest(trials):.2f} to {max(loss_of(trial) for trial in trials):.2f} nats (low below "
        f"{low_loss(evidence):.2f}){at_most}",
        accuracy_in_words(evidence.subject),
        reference_in_words(evidence),
    ]


def reasons_for_optimisation(evidence: Evidence, trials: Sequence[TrialEvidence]) -> list[str]:
    """Return the evidence for optimisation: trials that succeed."""
    examples = ", ".join(
        f"seed {trial.seed} at rate {trial.learning_rate:g}"
        + ("" if trial.accuracy is None else f" ({percent(trial.accuracy)} on held-out items)")
        for trial in sorted(trials, key=loss_of)[:3]
    )
    return [
        f"{len(trials)} of {counted(len(evidence.subject.trials), 'trial')} and "
        f"{len({trial.seed for trial in trials})} of "
        f"{counted(len(seeds_of(evidence.subject)), 'seed')} succeed, among them {examples}",
        accuracy_in_words(evidence.subject),
        reference_in_words(evidence),
    ]
