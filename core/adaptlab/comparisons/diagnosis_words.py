"""What a diagnosis cites, as sentences: scores, losses, controls."""

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


def grounds_in_words(evidence: Evidence) -> list[str]:
    """What reach rests on besides losses that stay high."""
    subject, twice = evidence.subject, of_twice_the_steps(evidence)[0]
    rates = sorted({one.learning_rate for one in subject.trials})
    found = [
        f"of every seed the best of the rates from {rates[0]:g} to {rates[-1]:g} is bracketed",
        f"at a constant rate the lowest losses are {mean_best(subject):.2f} nats after "
        f"{subject.steps:,} steps and {mean_best(twice):.2f} after {twice.steps:,}",
    ]
    if larger := larger_sizes_trained_as_well(evidence):
        most = max(larger, key=lambda one: one.parameters)
        found.append(
            f"a size of {most.parameters:,} parameters fails as well: {accuracy_in_words(most)}"
        )
    other = max(others_that_succeed(evidence), key=lambda one: one.test_accuracy)
    return [*found, f"the budget is enough for another method: {accuracy_in_words(other)}"]


def control_in_words(evidence: Evidence) -> list[str]:
    """What the pinned-attention reference says about the explanation by attention."""
    subject, pinned = evidence.subject, evidence.pinned
    if pinned is None or not subject.pins_attention:
        return []
    if has_learned(evidence, pinned.test_accuracy):
        left = f"; what is left to explain it: {subject.restriction}" if subject.restriction else ""
        return [
            f"the failure is not explained by a need for a new attention pattern in the first "
            f"layer, without which {accuracy_in_words(pinned)}{left}"
        ]
    return [
        f"the pinned-attention reference fails as well ({accuracy_in_words(pinned)}), as it would "
        "if the task needed a new attention pattern in the first layer"
    ]


def named_seeds(seeds: Sequence[int]) -> str:
    """The seeds by their numbers."""
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"


def accuracy_in_words(method: MethodEvidence) -> str:
    """The test accuracy of a method."""
    return f"{method.method} has {method.test_accuracy:.1%} of the test items right"


def reference_in_words(evidence: Evidence) -> str:
    """The accuracy of the reference, which shows that the task can be learned."""
    assert evidence.reference is not None
    return f"the task can be learned: {accuracy_in_words(evidence.reference)}"


def losses_in_words(evidence: Evidence) -> str:
    """The range of the training losses of the subject, over how many seeds and rates."""
    subject = evidence.subject
    losses = [one.final_loss for one in subject.trials if one.final_loss is not None]
    seeds = len({one.seed for one in subject.trials})
    rates = len({one.learning_rate for one in subject.trials})
    return (
        f"its training loss ends between {min(losses):.2f} and {max(losses):.2f} nats over "
        f"{seeds} seeds and {rates} learning rates (high from {high_loss(evidence):.2f}; chance "
        f"{evidence.chance_loss:.2f})"
    )


def overfitting_in_words(evidence: Evidence, trials: Sequence[TrialEvidence]) -> list[str]:
    """What generalisation rests on: low training losses, and held-out items that fail."""
    held_out = [one.accuracy for one in trials if one.accuracy is not None]
    told = f"; their validation accuracy is at most {max(held_out):.1%}" if held_out else ""
    return [
        f"{len(trials)} of {len(evidence.subject.trials)} trials train to a loss of "
        f"{lowest(trials):.2f} to {max(loss_of(one) for one in trials):.2f} nats (low below "
        f"{low_loss(evidence):.2f}){told}",
        accuracy_in_words(evidence.subject),
        reference_in_words(evidence),
    ]


def successes_in_words(evidence: Evidence, trials: Sequence[TrialEvidence]) -> list[str]:
    """What optimisation rests on: the trials that succeed among those that do not."""
    named = ", ".join(
        f"seed {one.seed} at rate {one.learning_rate:g}"
        + ("" if one.accuracy is None else f" ({one.accuracy:.1%} on validation)")
        for one in sorted(trials, key=loss_of)[:3]
    )
    return [
        f"{len(trials)} of {len(evidence.subject.trials)} trials and "
        f"{len({one.seed for one in trials})} of {len(seeds_of(evidence.subject))} seeds succeed, "
        f"among them {named}",
        accuracy_in_words(evidence.subject),
        reference_in_words(evidence),
    ]
