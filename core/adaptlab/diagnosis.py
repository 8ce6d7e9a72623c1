"""Why a method failed, as far as measurements tell: reach, optimisation, generalisation.

A diagnosis from measurements, not a proof: every rule below is a threshold on a number, the
numbers are cited in the text, and whatever was not measured is named.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from adaptlab.method import METHODS
from adaptlab.results import ReplicateResult
from adaptlab.task import Task
from adaptlab.values import Value

SUCCEEDS_FROM = 0.5
"""A method has learned the task when it keeps this share of what the reference gained on chance."""
HIGH_FROM = 0.25
"""A loss is high when this share of the way from the reference's loss to chance is left."""
STILL_FALLING = 0.1
"""A training has not come to rest if its second half closed this share of the gap left at half."""
PINNED_BELOW = 1e-3
"""Attention is pinned when no relative weight in the first layer moved further than this.

Equation 6 of the paper makes the deviation exactly zero for prefixes; computed in float64 it stays
below 1e-12. LoRA and full fine-tuning, where they learn to sort downwards, move it by a half.
"""

LEAST_TRIALS = 3
LEAST_RATE_RANGE = 10.0
"""Reach is only concluded after so many trials a seed, over learning rates of this ratio."""

Cause = Literal["none", "reach", "optimisation", "generalisation", "undecided"]
LABEL = "Diagnosis from measurements, not a proof."


class TrialEvidence(Value):
    """How one seed and trial ended; losses are means of the training loss in nats.

    `half_loss` is the loss half way through the training, None if it was not kept; a diverged
    trial has no final loss. `accuracy` is on held-out items: of the validation split or, for a
    trial that was not scored there, of the test; None if neither was done.
    """

    seed: int
    trial: int
    learning_rate: float
    final_loss: float | None
    half_loss: float | None = None
    accuracy: float | None = None


class MethodEvidence(Value):
    """What was measured of one method on one task, over all seeds and trials.

    `test_accuracy` is the mean over the chosen replicates; `first_layer_deviation` the largest
    change of relative attention over content in the first layer (`AttentionSummary`), None if no
    attention was captured.
    """

    method: str
    trials: tuple[TrialEvidence, ...]
    test_accuracy: float
    first_layer_deviation: float | None = None


class Evidence(Value):
    """All that a diagnosis of `subject` may use.

    `reference` is a method that may change everything, full fine-tuning as a rule: it shows that
    the task can be learned. `relaxed` is a method that `relaxes_prefix`, free in what a prefix can
    only approximate; it is given also where it is the subject. `chance_loss` (nats) and
    `chance_accuracy` are those of uniform guessing; `counted_length` is the mean number of tokens
    of an answer that a loss is the mean of (`Task.counted_length`).
    """

    subject: MethodEvidence
    reference: MethodEvidence | None = None
    relaxed: MethodEvidence | None = None
    chance_loss: float
    chance_accuracy: float
    counted_length: float


class Diagnosis(Value):
    """The most likely cause of a failure; `none` when the method has learned the task.

    `text` cites the numbers on which it rests; `reasons` gives them one by one and `missing` what
    was not measured and would make it surer.
    """

    method: str
    cause: Cause
    label: str = LABEL
    text: str
    reasons: tuple[str, ...]
    missing: tuple[str, ...] = ()


def prefix_relaxations() -> tuple[str, ...]:
    """The methods that are free in what learned positions can only approximate."""
    return tuple(name for name in METHODS.names() if METHODS.get(name).relaxes_prefix)


def chance_loss(task: Task) -> float:
    """The loss of uniform guessing, in nats a counted token of the answer."""
    return task.chance_loss()


def trial_evidence(
    replicates: Sequence[ReplicateResult],
    half_losses: Mapping[int, float] | None = None,
    test_accuracies: Mapping[int, float] | None = None,
) -> tuple[TrialEvidence, ...]:
    """The evidence in the replicates of a job; the mappings are by replicate number.

    A trial that was eliminated at a rung did not have its whole training and shows nothing.
    """
    halves, tests = half_losses or {}, test_accuracies or {}
    return tuple(
        TrialEvidence(
            seed=one.seed,
            trial=one.trial,
            learning_rate=one.learning_rate,
            final_loss=None if one.status == "diverged" else one.final_loss,
            half_loss=halves.get(one.replicate),
            accuracy=tests.get(one.replicate)
            if one.validation_accuracy is None
            else one.validation_accuracy,
        )
        for one in replicates
        if one.status != "eliminated"
    )


def diagnose(evidence: Evidence) -> Diagnosis:
    """Why `evidence.subject` failed, by rules that are tried in this order.

    1. *none*: its test accuracy is at least half of the reference's, above chance.
    2. *undecided*: nothing shows that the task can be learned with this training (no reference,
       or one that failed too), or every trial diverged.
    3. *optimisation*: some rate or seed has learned the task, on held-out items.
    4. *generalisation*: training losses are low, and held-out items fail all the same.
    5. *optimisation* again, if the relaxed method has learned the task.
    6. *reach*: the loss of every trial of every seed stays high and has come to rest, over enough
       learning rates; relative attention is pinned in the first layer; the relaxed method, where
       it was run, fails as well.
    7. *undecided*, with what speaks against reach or is missing for it.
    """
    subject, reference = evidence.subject, evidence.reference
    if reference is None:
        if subject.test_accuracy >= SUCCEEDS_FROM:
            return _answer(evidence, "none", [_accuracy(subject)])
        missing = ("a reference such as full fine-tuning, to show that the task can be learned",)
        return _answer(evidence, "undecided", [_accuracy(subject)], missing)
    if _has_learned(evidence, subject.test_accuracy):
        return _answer(evidence, "none", [_accuracy(subject), _accuracy(reference)])
    if not _task_is_learnable(evidence):
        failed = f"the reference fails too: {_accuracy(reference)}"
        return _answer(evidence, "undecided", [_accuracy(subject), failed])
    return _failure(evidence)


def _failure(evidence: Evidence) -> Diagnosis:
    """The cause of a failure on a task that the reference has learned."""
    subject = evidence.subject
    ended = [one for one in subject.trials if one.final_loss is not None]
    if not ended:
        return _answer(evidence, "undecided", ["every trial diverged, or none was trained"])
    if good := [one for one in ended if _succeeds(evidence, one)]:
        return _answer(evidence, "optimisation", _successes(evidence, good))
    if low := [one for one in ended if _is_low(evidence, one)]:
        return _answer(evidence, "generalisation", _overfitting(evidence, low))
    if evidence.relaxed and _has_learned(evidence, evidence.relaxed.test_accuracy):
        reasons = [f"the relaxed method succeeds: {_accuracy(evidence.relaxed)}", _losses(evidence)]
        return _answer(evidence, "optimisation", reasons)
    return _reach_or_undecided(evidence)


def _reach_or_undecided(evidence: Evidence) -> Diagnosis:
    against, needed = _against_reach(evidence), _missing_for_reach(evidence)
    missing = needed if evidence.relaxed else [*needed, _relaxation_missing()]
    reasons = [_accuracy(evidence.subject), _reference(evidence), _losses(evidence)]
    if against or needed:
        return _answer(evidence, "undecided", [*reasons, *against], tuple(missing))
    reasons.append(
        "relative attention in the first layer moved by at most "
        f"{evidence.subject.first_layer_deviation:.1e} (pinned below {PINNED_BELOW:g})"
    )
    if evidence.relaxed and evidence.relaxed != evidence.subject:
        reasons.append(f"the relaxed method fails as well: {_accuracy(evidence.relaxed)}")
    return _answer(evidence, "reach", reasons, tuple(missing))


def _against_reach(evidence: Evidence) -> list[str]:
    """What was measured and speaks against reach."""
    subject, found = evidence.subject, list[str]()
    moved = subject.first_layer_deviation
    if moved is not None and moved >= PINNED_BELOW:
        found.append(f"relative attention did move, by {moved:.2g} in the first layer")
    if not_high := [one for one in subject.trials if _loss_of(one) < _high_loss(evidence)]:
        found.append(
            f"{len(not_high)} of {len(subject.trials)} trials end below the loss that counts as "
            f"high, with {_lowest(not_high):.2f}, and above the {_low_loss(evidence):.2f} "
            "below which training items count as learned"
        )
    if falling := [one for one in _best_of_seeds(subject) if _still_falls(evidence, one)]:
        one = falling[0]
        found.append(
            f"the loss of seed {one.seed} was still falling, from {one.half_loss:.2f} at half of "
            f"the training to {one.final_loss:.2f}"
        )
    return found


def _missing_for_reach(evidence: Evidence) -> list[str]:
    """What reach has to rest on and was not measured."""
    subject, found = evidence.subject, list[str]()
    rates = [one.learning_rate for one in subject.trials]
    if len(set(rates)) < LEAST_TRIALS or max(rates) < LEAST_RATE_RANGE * min(rates):
        found.append(
            f"learning rates: {len(set(rates))} were tried, from {min(rates):g} to {max(rates):g}; "
            f"at least {LEAST_TRIALS} over a factor of {LEAST_RATE_RANGE:g} are needed"
        )
    if any(one.half_loss is None for one in _best_of_seeds(subject)):
        found.append("the training loss at half of the training, to see that it came to rest")
    if subject.first_layer_deviation is None:
        found.append("captured attention, to see whether it is pinned")
    return found


def _relaxation_missing() -> str:
    """What would make reach surer; it is concluded without it."""
    named = "".join(f"{name}, " for name in prefix_relaxations())
    return f"{named}the relaxed method, on the same task"


def _has_learned(evidence: Evidence, accuracy: float) -> bool:
    assert evidence.reference is not None
    chance = evidence.chance_accuracy
    return accuracy - chance >= SUCCEEDS_FROM * (evidence.reference.test_accuracy - chance)


def _task_is_learnable(evidence: Evidence) -> bool:
    """The reference is half way from chance to perfect."""
    assert evidence.reference is not None
    chance = evidence.chance_accuracy
    return evidence.reference.test_accuracy - chance >= SUCCEEDS_FROM * (1 - chance)


def _succeeds(evidence: Evidence, one: TrialEvidence) -> bool:
    return one.accuracy is not None and _has_learned(evidence, one.accuracy)


def _best_loss(method: MethodEvidence) -> float:
    losses = [one.final_loss for one in method.trials if one.final_loss is not None]
    return min(losses, default=0.0)


def _high_loss(evidence: Evidence) -> float:
    """The loss from which on a trial counts as high, in nats."""
    assert evidence.reference is not None
    best = _best_loss(evidence.reference)
    return best + HIGH_FROM * max(0.0, evidence.chance_loss - best)


def _low_loss(evidence: Evidence) -> float:
    """The loss up to which a trial has learned its training items, in nats.

    Their whole answers are then, in the geometric mean, at least half as likely as under the
    reference. A loss that looks low for one token can still get most answers of ten wrong.
    """
    assert evidence.reference is not None
    of_half = -math.log(SUCCEEDS_FROM) / evidence.counted_length
    learned = _best_loss(evidence.reference) + of_half
    return min(learned, _high_loss(evidence))


def _is_low(evidence: Evidence, one: TrialEvidence) -> bool:
    return one.final_loss is not None and one.final_loss < _low_loss(evidence)


def _best_of_seeds(method: MethodEvidence) -> list[TrialEvidence]:
    """The trial of lowest final loss of every seed that has one."""
    best: dict[int, TrialEvidence] = {}
    for one in method.trials:
        if one.final_loss is not None and one.final_loss < _loss_of(best.get(one.seed)):
            best[one.seed] = one
    return list(best.values())


def _loss_of(one: TrialEvidence | None) -> float:
    return math.inf if one is None or one.final_loss is None else one.final_loss


def _lowest(trials: Sequence[TrialEvidence]) -> float:
    return min(_loss_of(one) for one in trials)


def _still_falls(evidence: Evidence, one: TrialEvidence) -> bool:
    if one.half_loss is None or one.final_loss is None:
        return False
    assert evidence.reference is not None
    left = one.half_loss - _best_loss(evidence.reference)
    return one.half_loss - one.final_loss > STILL_FALLING * max(0.0, left)


def _accuracy(method: MethodEvidence) -> str:
    return f"{method.method} has {method.test_accuracy:.1%} of the test items right"


def _reference(evidence: Evidence) -> str:
    assert evidence.reference is not None
    return f"the task can be learned: {_accuracy(evidence.reference)}"


def _losses(evidence: Evidence) -> str:
    subject = evidence.subject
    losses = [one.final_loss for one in subject.trials if one.final_loss is not None]
    seeds = len({one.seed for one in subject.trials})
    rates = len({one.learning_rate for one in subject.trials})
    return (
        f"its training loss ends between {min(losses):.2f} and {max(losses):.2f} nats over "
        f"{seeds} seeds and {rates} learning rates (high from {_high_loss(evidence):.2f}; chance "
        f"{evidence.chance_loss:.2f})"
    )


def _overfitting(evidence: Evidence, trials: Sequence[TrialEvidence]) -> list[str]:
    held_out = [one.accuracy for one in trials if one.accuracy is not None]
    told = f"; their validation accuracy is at most {max(held_out):.1%}" if held_out else ""
    return [
        f"{len(trials)} of {len(evidence.subject.trials)} trials train to a loss of "
        f"{_lowest(trials):.2f} to {max(_loss_of(one) for one in trials):.2f} nats (low below "
        f"{_low_loss(evidence):.2f}){told}",
        _accuracy(evidence.subject),
        _reference(evidence),
    ]


def _successes(evidence: Evidence, trials: Sequence[TrialEvidence]) -> list[str]:
    named = ", ".join(
        f"seed {one.seed} at rate {one.learning_rate:g}"
        + ("" if one.accuracy is None else f" ({one.accuracy:.1%} on validation)")
        for one in sorted(trials, key=_loss_of)[:3]
    )
    return [
        f"{len(trials)} of {len(evidence.subject.trials)} trials succeed, among them {named}",
        _accuracy(evidence.subject),
        _reference(evidence),
    ]


_OPENINGS: dict[Cause, str] = {
    "none": "{} has learned the task",
    "reach": "{} does not reach the task: more training is unlikely to help",
    "optimisation": "{} could do the task, but training does not find it reliably",
    "generalisation": "{} learns its training items and fails on new ones",
    "undecided": "Why {} fails is not decided",
}


def _answer(
    evidence: Evidence, cause: Cause, reasons: Sequence[str], missing: tuple[str, ...] = ()
) -> Diagnosis:
    opening = _OPENINGS[cause].format(evidence.subject.method)
    lacking = f" Not measured: {'; '.join(missing)}." if missing else ""
    return Diagnosis(
        method=evidence.subject.method,
        cause=cause,
        text=f"{opening}: {'; '.join(reasons)}.{lacking} {LABEL}",
        reasons=tuple(reasons),
        missing=missing,
    )
