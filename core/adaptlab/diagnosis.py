"""Why a method failed, as far as measurements tell: reach, optimisation, generalisation.

A diagnosis from measurements, not a proof: every rule is a threshold on a number, the numbers are
cited in the text, whatever was not measured is named, and so is the run that would supply it.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Literal

from adaptlab.base_learned import LEARNED_FROM
from adaptlab.diagnosis_next import HIGHEST_RATE, extension
from adaptlab.method import METHODS
from adaptlab.results import ReplicateResult
from adaptlab.task import Task
from adaptlab.values import Value

SUCCEEDS_FROM = 0.5
"""A method has learned the task when it keeps this share of what the reference gained on chance."""
HIGH_FROM = 0.25
"""A loss is high when this share of the way from the reference's loss to chance is left."""
STILL_FALLING = 0.1
"""Training is not at rest if the second half of the steps closed this share of the gap to zero.

The gap is that between the loss at half and the lowest loss of the reference. The same share
decides whether a run of twice the steps changed anything.
"""
LEAST_SEEDS = 3
"""Seeds that have to agree before reach or generalisation is concluded."""
LOWER_EDGE = 0.05
UPPER_EDGE = 0.02
"""A sweep brackets an optimum if, of every seed, its ends are worse than the best rate within it.

Worse by these shares of the gap to the reference. Losses of rates that are all too low differ by
noise alone, which is why the lowest rate has to be clearly worse. The highest may be as good as the
best only if it is ten times as high and no spec can ask for a higher one: losses can stand still
over several powers of ten below the rate at which a method begins to learn.
"""
FAR_ABOVE = 10.0
TWICE = 2
LARGER = 1.5
"""Another size counts as larger from this many times the trained parameters on."""
EQUAL_BUDGET = 1.05
"""Another method has an equal budget up to this many times the trained parameters."""

Cause = Literal["none", "reach", "optimisation", "generalisation", "undecided"]
Schedule = Literal["cosine", "constant"]
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

    `test_accuracy` is the mean over the chosen replicates. `configuration` is the resolved method,
    from which the text proposes further runs. `pins_attention` says that the method cannot change
    the first layer's relative attention, `grows` that it exists in larger sizes, and `restriction`
    what else it cannot do.
    """

    method: str
    trials: tuple[TrialEvidence, ...]
    test_accuracy: float
    parameters: int = 0
    steps: int = 0
    schedule: Schedule = "cosine"
    pins_attention: bool = False
    grows: bool = True
    restriction: str = ""
    configuration: Mapping[str, object] = {}


class BaseEvidence(Value):
    """How well the base model does its own tasks, all of them together, and how well by chance."""

    accuracy: float
    chance: float


class Evidence(Value):
    """All that a diagnosis of `subject` may use; everything is of one task and one base model.

    `reference` is a method that may change everything, full fine-tuning as a rule: it shows that
    the task can be learned. `pinned` may change everything except the first layer's attention.
    `sizes` are the subject at other sizes, `durations` the same configuration trained for other
    numbers of steps, `others` further methods, none of which computes the same function.
    `equivalent` are labels whose trials are among the subject's, because they do. `base` is None
    where the base was not scored on all of its own tasks, and `base_has_tasks` False where there
    are none: the base was imported, or the subject does not start from it. `chance_loss`
    (nats) and `chance_accuracy` are those of uniform guessing; `counted_length` is the mean number
    of tokens of an answer that a loss is the mean of (`Task.counted_length`).
    """

    subject: MethodEvidence
    reference: MethodEvidence | None = None
    pinned: MethodEvidence | None = None
    sizes: tuple[MethodEvidence, ...] = ()
    durations: tuple[MethodEvidence, ...] = ()
    others: tuple[MethodEvidence, ...] = ()
    equivalent: tuple[str, ...] = ()
    base: BaseEvidence | None = None
    base_has_tasks: bool = True
    chance_loss: float
    chance_accuracy: float
    counted_length: float


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
    good = [one for one in ended if _succeeds(evidence, one)]
    if good and not _is_luck(evidence, good):
        return _answer(evidence, "optimisation", _successes(evidence, good))
    if elsewhere := _succeeds_elsewhere(evidence):
        return _answer(evidence, "optimisation", [_accuracy(subject), *elsewhere])
    low = [one for one in ended if _is_low(evidence, one)]
    seeds = {one.seed for one in low}
    if len(seeds) >= LEAST_SEEDS and 2 * len(seeds) > len(_seeds(subject)):
        return _answer(evidence, "generalisation", _overfitting(evidence, low))
    return _reach_or_undecided(evidence)


def _succeeds_elsewhere(evidence: Evidence) -> list[str]:
    """Runs of the subject with other steps, or smaller ones, that have learned the task."""
    subject, found = evidence.subject, list[str]()
    for one in evidence.durations:
        if _has_learned(evidence, one.test_accuracy):
            found.append(f"with {one.steps:,} instead of {subject.steps:,} steps {_accuracy(one)}")
    for one in evidence.sizes:
        if one.parameters <= subject.parameters and _has_learned(evidence, one.test_accuracy):
            found.append(f"a configuration of it that is no larger succeeds: {_accuracy(one)}")
    return found


def _reach_or_undecided(evidence: Evidence) -> Diagnosis:
    against, needed = _against_reach(evidence), _missing_for_reach(evidence)
    reasons = [_accuracy(evidence.subject), _reference(evidence), _losses(evidence)]
    control = _control(evidence)
    if against or needed:
        return _answer(evidence, "undecided", [*reasons, *against, *control], tuple(needed))
    return _answer(evidence, "reach", [*reasons, *_grounds(evidence), *control])


def _against_reach(evidence: Evidence) -> list[str]:
    """What was measured and speaks against reach."""
    subject, found = evidence.subject, list[str]()
    for one in subject.trials:
        if one.final_loss is not None and _succeeds(evidence, one):
            found.append(
                f"one trial alone has {one.accuracy or 0:.1%} of its held-out items right, at a "
                f"training loss of {one.final_loss:.2f} nats"
            )
    if not_high := [one for one in subject.trials if _loss_of(one) < _high_loss(evidence)]:
        found.append(
            f"{len(not_high)} of {len(subject.trials)} trials end below the loss that counts as "
            f"high, with {_lowest(not_high):.2f}, and training items count as learned below "
            f"{_low_loss(evidence):.2f} in at least {LEAST_SEEDS} seeds"
        )
    if falling := [one for one in _best_of_seeds(subject) if _still_falls(evidence, one)]:
        one = falling[0]
        found.append(
            f"the loss of seed {one.seed} was still falling, from {one.half_loss:.2f} at half of "
            f"the training to {one.final_loss:.2f}"
        )
    found += _others_against_reach(evidence)
    if evidence.base is not None and not _base_has_learned(evidence.base):
        found.append(
            f"the base model has only {evidence.base.accuracy:.1%} of the items of its own tasks "
            "right, so that the failure may be the base's"
        )
    return found


def _others_against_reach(evidence: Evidence) -> list[str]:
    """Other trainings that speak against reach."""
    subject, found = evidence.subject, list[str]()
    for one in _of_twice_the_steps(evidence):
        if _changes(evidence, one):
            found.append(
                f"steps make a difference: its mean lowest loss is {_mean_best(subject):.2f} nats "
                f"after {subject.steps:,} steps and {_mean_best(one):.2f} after {one.steps:,}"
            )
    for one in _larger(evidence):
        if _has_learned(evidence, one.test_accuracy):
            found.append(f"what is missing is size: {_accuracy(one)}")
    for one in _others_that_succeed(evidence, is_bound_alike=True):
        found.append(f"a method with the same restriction succeeds: {_accuracy(one)}")
    return found


def _missing_for_reach(evidence: Evidence) -> list[str]:
    """What reach has to rest on and was not measured."""
    subject, found = evidence.subject, list[str]()
    if len(seeds := _ended_seeds(subject)) < LEAST_SEEDS:
        found.append(f"seeds: {len(seeds)} instead of at least {LEAST_SEEDS}")
    found += _unbracketed(evidence)
    if subject.schedule != "constant":
        found.append(f"a constant schedule: with {subject.schedule} every training comes to rest")
    if any(one.half_loss is None for one in _best_of_seeds(subject)):
        found.append("the training loss at half of the training, to see that it came to rest")
    if not _of_twice_the_steps(evidence):
        found.append(
            f"the same configuration at a constant rate for {TWICE * subject.steps:,} steps, "
            f"{TWICE} times as many, to see that they change nothing"
        )
    if subject.grows and not _larger_and_trained(evidence):
        found.append(f"a larger size, of {TWICE * subject.parameters:,} parameters or more")
    if not _others_that_succeed(evidence):
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
    curves = _curves(evidence.subject)
    rates = sorted({rate for curve in curves.values() for rate in curve})
    lower = [seed for seed, of in curves.items() if not _is_bracketed_below(evidence, of)]
    upper = [seed for seed, of in curves.items() if not _is_bracketed_above(evidence, of)]
    found = list[str]()
    for name, end, seeds in (("lower", rates[:1], lower), ("upper", rates[-1:], upper)):
        if seeds:
            found.append(
                f"rates beyond the {name} end of those that came to an end, {end[0]:g}: of "
                f"{_named_seeds(seeds)} the loss there is not worse than within"
            )
    return found


def _curves(method: MethodEvidence) -> dict[int, dict[float, float]]:
    """The lowest final loss by rate, of every seed that has any."""
    ended = sorted(
        (one.seed, one.learning_rate, one.final_loss)
        for one in method.trials
        if one.final_loss is not None
    )
    found: dict[int, dict[float, float]] = {}
    for seed, of_seed in groupby(ended, key=lambda one: one[0]):
        curve: dict[float, float] = {}
        for _, rate, loss in of_seed:
            curve[rate] = min(loss, curve.get(rate, math.inf))
        found[seed] = curve
    return found


def _within(curve: Mapping[float, float]) -> tuple[float, float]:
    """The best rate that is not at an end, and its loss; infinite where there is none."""
    inside = sorted(curve)[1:-1]
    best = min(inside, key=lambda rate: curve[rate], default=math.inf)
    return best, curve.get(best, math.inf)


def _is_bracketed_below(evidence: Evidence, curve: Mapping[float, float]) -> bool:
    _, best = _within(curve)
    return curve[min(curve)] > best + LOWER_EDGE * _gap(evidence, best)


def _is_bracketed_above(evidence: Evidence, curve: Mapping[float, float]) -> bool:
    rate, best = _within(curve)
    rise = UPPER_EDGE * _gap(evidence, best)
    highest = max(curve)
    if curve[highest] > best + rise:
        return True
    # A sweep of rates at equal ratios ends beside its upper limit by a rounding error.
    is_highest = highest >= HIGHEST_RATE or math.isclose(highest, HIGHEST_RATE)
    return curve[highest] > best - rise and is_highest and highest >= FAR_ABOVE * rate


def _gap(evidence: Evidence, loss: float) -> float:
    assert evidence.reference is not None
    return max(0.0, loss - _best_loss(evidence.reference)) if math.isfinite(loss) else 0.0


def _grounds(evidence: Evidence) -> list[str]:
    """What reach rests on besides losses that stay high."""
    subject, twice = evidence.subject, _of_twice_the_steps(evidence)[0]
    rates = sorted({one.learning_rate for one in subject.trials})
    found = [
        f"of every seed the best of the rates from {rates[0]:g} to {rates[-1]:g} is bracketed",
        f"at a constant rate the lowest losses are {_mean_best(subject):.2f} nats after "
        f"{subject.steps:,} steps and {_mean_best(twice):.2f} after {twice.steps:,}",
    ]
    if larger := _larger_and_trained(evidence):
        most = max(larger, key=lambda one: one.parameters)
        found.append(f"a size of {most.parameters:,} parameters fails as well: {_accuracy(most)}")
    other = max(_others_that_succeed(evidence), key=lambda one: one.test_accuracy)
    return [*found, f"the budget is enough for another method: {_accuracy(other)}"]


def _control(evidence: Evidence) -> list[str]:
    """What the pinned-attention reference says about the explanation by attention."""
    subject, pinned = evidence.subject, evidence.pinned
    if pinned is None or not subject.pins_attention:
        return []
    if _has_learned(evidence, pinned.test_accuracy):
        left = f"; what is left to explain it: {subject.restriction}" if subject.restriction else ""
        return [
            f"the failure is not explained by a need for a new attention pattern in the first "
            f"layer, without which {_accuracy(pinned)}{left}"
        ]
    return [
        f"the pinned-attention reference fails as well ({_accuracy(pinned)}), as it would if the "
        "task needed a new attention pattern in the first layer"
    ]


def _of_twice_the_steps(evidence: Evidence) -> list[MethodEvidence]:
    """Constant trainings of the subject with at least twice its steps, or at most half of them.

    A longer one that ends with a higher loss had worse rates, and does not show that steps change
    nothing.
    """
    steps = evidence.subject.steps
    return [
        one
        for one in evidence.durations
        if one.schedule == "constant"
        and len(_ended_seeds(one)) >= LEAST_SEEDS
        and (
            TWICE * one.steps <= steps
            or (one.steps >= TWICE * steps and _is_trained_as_well(evidence, one))
        )
    ]


def _is_trained_as_well(evidence: Evidence, other: MethodEvidence) -> bool:
    """Return True if the other's losses are not clearly above those of the subject."""
    loss = _mean_best(evidence.subject)
    return _mean_best(other) <= loss + STILL_FALLING * _gap(evidence, loss)


def _changes(evidence: Evidence, other: MethodEvidence) -> bool:
    """Return True if the longer of two trainings ends with a clearly lower loss."""
    short, long = sorted((evidence.subject, other), key=lambda one: one.steps)
    loss = _mean_best(short)
    return loss - _mean_best(long) > STILL_FALLING * _gap(evidence, loss)


def _larger(evidence: Evidence) -> list[MethodEvidence]:
    least = LARGER * evidence.subject.parameters
    return [one for one in evidence.sizes if one.parameters >= least]


def _larger_and_trained(evidence: Evidence) -> list[MethodEvidence]:
    """The larger sizes with as much training as the subject, whose failure shows something."""
    return [
        one
        for one in _larger(evidence)
        if len(_ended_seeds(one)) >= LEAST_SEEDS
        and one.steps >= evidence.subject.steps
        and _is_trained_as_well(evidence, one)
    ]


def _others_that_succeed(
    evidence: Evidence, *, is_bound_alike: bool = False
) -> list[MethodEvidence]:
    """Other methods that have learned the task at the budget, with or without its restriction."""
    subject = evidence.subject
    return [
        one
        for one in evidence.others
        if 0 < one.parameters <= EQUAL_BUDGET * subject.parameters
        and _has_learned(evidence, one.test_accuracy)
        and is_bound_alike == (one.restriction == subject.restriction != "")
    ]


def _base_has_learned(base: BaseEvidence) -> bool:
    return base.accuracy - base.chance >= LEARNED_FROM * (1 - base.chance)


def _seeds(method: MethodEvidence) -> set[int]:
    return {one.seed for one in method.trials}


def _ended_seeds(method: MethodEvidence) -> set[int]:
    """The seeds of which some trial came to an end."""
    return {one.seed for one in method.trials if one.final_loss is not None}


def _named_seeds(seeds: Sequence[int]) -> str:
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"


def _mean_best(method: MethodEvidence) -> float:
    """The mean over seeds of the lowest final loss, in nats."""
    best = [_loss_of(one) for one in _best_of_seeds(method)]
    return math.fsum(best) / len(best) if best else math.inf


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


def _is_luck(evidence: Evidence, good: Sequence[TrialEvidence]) -> bool:
    """Return True for one trial alone whose training loss is high all the same."""
    return len(good) == 1 and _loss_of(good[0]) >= _high_loss(evidence)


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
        f"{len(trials)} of {len(evidence.subject.trials)} trials and "
        f"{len({one.seed for one in trials})} of {len(_seeds(evidence.subject))} seeds succeed, "
        f"among them {named}",
        _accuracy(evidence.subject),
        _reference(evidence),
    ]


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
    curves = _curves(subject).values()
    rates = sorted({one.learning_rate for one in subject.trials})
    low = any(not _is_bracketed_below(evidence, of) for of in curves)
    high = any(not _is_bracketed_above(evidence, of) for of in curves)
    is_sweep_bad = low or high or subject.schedule != "constant"
    needs_steps = is_sweep_bad or not _of_twice_the_steps(evidence)
    lacking = LEAST_SEEDS - len(_ended_seeds(subject))
    return extension(
        configuration=subject.configuration,
        label=subject.method,
        steps=(*((subject.steps,) if is_sweep_bad else ()), TWICE * subject.steps)
        if needs_steps
        else (),
        rates=(rates[0] / (10 if low else 1), rates[-1] * (10 if high else 1)),
        trials=len(rates) + 2 * low + 2 * high,
        budget=TWICE * subject.parameters
        if subject.grows and not _larger_and_trained(evidence)
        else None,
        seeds=len(_seeds(subject)) + lacking if lacking > 0 else None,
        references=attention_controls() if subject.pins_attention and not evidence.pinned else (),
        rival=not _others_that_succeed(evidence),
    )
