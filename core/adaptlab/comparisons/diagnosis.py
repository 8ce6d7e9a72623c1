"""The likely cause of a failure, from held-out scores.

A diagnosis rests on measurements and is not a proof. Every rule is a threshold on a held-out score.
A diagnosis has one sentence of finding, the facts behind it, and what would refute it; or the
trainings that would decide it; or the reason why it cannot be decided.
"""

from collections.abc import Iterator
from typing import Literal

from adaptlab.comparisons.diagnosis_evidence import DiagnosisEvidence, MethodEvidence
from adaptlab.comparisons.diagnosis_measures import (
    LEAST_SEEDS,
    base_has_learned,
    best_known,
    best_rate_at_end,
    can_grow,
    ended_seeds,
    falls_with_steps,
    has_learned,
    has_learned_partly,
    is_luck,
    larger_sizes,
    larger_sizes_trained_as_well,
    longest,
    low_trials,
    others_that_succeed,
    pinned_decides,
    rises_with_steps,
    seeds_of,
    successes,
    task_is_learnable,
)
from adaptlab.comparisons.diagnosis_next import Proposal, awaited, proposal
from adaptlab.comparisons.diagnosis_words import (
    elsewhere_in_words,
    facts,
    learned_in_words,
    not_reached_in_words,
    overfits_in_words,
    refutation_in_words,
    rises_in_words,
    score_in_words,
    seeds_in_words,
    too_small_in_words,
)
from adaptlab.comparisons.row_names import method_in_sentence
from adaptlab.figures import counted, percent
from adaptlab.values import Value

Cause = Literal["none", "reach", "size", "optimisation", "generalisation", "undecided"]
LABEL = "Diagnosis from measurements, not a proof."


class Diagnosis(Value):
    """The likely cause of a failure; `none` if the task was learned.

    `text` is the finding in one sentence, `reasons` are the facts behind it, and `refuted_by` names
    what would refute it. An undecided diagnosis names in `missing` what was not measured;
    `next_run` is the one extension of a study that would supply it, with `next_run_text` and the
    estimated `minutes` of a worker. Without `next_run`, it cannot be decided here, and `text` has
    the reason. `equivalent` are rows that compute the same function, whose trials count here too.
    """

    method: str
    cause: Cause
    label: str = LABEL
    text: str
    reasons: tuple[str, ...]
    refuted_by: str = ""
    missing: tuple[str, ...] = ()
    next_run: dict[str, object] | None = None
    next_run_text: str = ""
    minutes: float | None = None
    equivalent: tuple[str, ...] = ()


def diagnose(evidence: DiagnosisEvidence) -> Diagnosis:
    """Return the cause of a failure, by the first rule that applies.

    1. *undecided*: no method learns the task, so nothing shows that it can be learned here.
    2. *none*: its test score, above the floor, is at least half of the best method's, and half
       of its seeds succeed.
    3. *optimisation*: some trials have learned the task on held-out items; or the same
       configuration has with other rates, steps or schedules, or at a smaller size; or its score
       clearly rises with more steps.
    4. *generalisation*: in several seeds, training losses are low and held-out items fail.
    5. *size*: no trial learns the task at this size, and a larger size does.
    6. *reach*: no trial learns it, over three powers of ten of learning rates, several seeds, twice
       the steps and a larger size, while another method of equal size does.
    7. *undecided*, with the measurements that are missing, or with the reason that stops it.
    """
    if not task_is_learnable(evidence):
        return _not_learnable(evidence)
    subject, good = evidence.subject, successes(evidence, [evidence.subject])
    half = 2 * len({one.seed for one in good}) >= len(seeds_of(subject)) or not good
    if has_learned(evidence, subject.score) and half:
        return _answer(evidence, "none", learned_in_words(evidence))
    if good and not is_luck(evidence, good):
        refuted = "Seeds that all fail when these trials are run again would refute this."
        return _answer(evidence, "optimisation", seeds_in_words(evidence, good), refuted)
    return _failure(evidence)


def _not_learnable(evidence: DiagnosisEvidence) -> Diagnosis:
    """Return the diagnosis where no method has learned the task."""
    best = score_in_words(evidence, best_known(evidence))
    floor = evidence.figure(evidence.floor)
    because = f"no method learns the task: {best}, and the floor is {floor}"
    if evidence.reference is None and (run := proposal(evidence)) is not None:
        missing = "a reference such as full fine-tuning, to show that the task can be learned"
        return _open(evidence, (missing, *_missing(evidence)), run)
    return _stopped(evidence, because)


def _failure(evidence: DiagnosisEvidence) -> Diagnosis:
    """Return the cause of a failure on a task that can be learned."""
    subject = evidence.subject
    for other in _that_succeed_elsewhere(evidence):
        text = elsewhere_in_words(evidence, other)
        again = method_in_sentence(other.method)
        refuted = f"A repetition of {again} that fails would refute this."
        return _answer(evidence, "optimisation", text, refuted)
    low = {one.seed for one in low_trials(evidence)}
    if len(low) >= LEAST_SEEDS and 2 * len(low) > len(seeds_of(subject)):
        refuted = "A trial that has learned new items as well would refute this."
        return _answer(evidence, "generalisation", overfits_in_words(evidence), refuted)
    if (because := next(_stops(evidence), None)) is not None:
        return _stopped(evidence, because)
    if (rising := rises_with_steps(evidence)) is not None:
        refuted = "Scores that fall back in a longer training would refute this."
        return _answer(evidence, "optimisation", rises_in_words(evidence, *rising), refuted)
    if missing := tuple(_missing(evidence)):
        return _open(evidence, missing, proposal(evidence))
    if (because := next(_doubts(evidence), None)) is not None:
        return _stopped(evidence, because)
    return _limit(evidence)


def _limit(evidence: DiagnosisEvidence) -> Diagnosis:
    """Return that the method, or its size, is the limit."""
    refuted = refutation_in_words(evidence)
    for larger in larger_sizes(evidence):
        if has_learned(evidence, larger.score):
            return _answer(evidence, "size", too_small_in_words(evidence, larger), refuted)
    return _answer(evidence, "reach", not_reached_in_words(evidence), refuted)


def _that_succeed_elsewhere(evidence: DiagnosisEvidence) -> Iterator[MethodEvidence]:
    """Yield other trainings that succeed, no larger than the subject.

    Two trials that do are enough, or the mean over seeds.
    """
    smaller = (one for one in evidence.sizes if one.parameters <= evidence.subject.parameters)
    for other in (*evidence.durations, *smaller):
        good = successes(evidence, [other])
        if has_learned(evidence, other.score) or len(good) > 1:
            yield other


def _stops(evidence: DiagnosisEvidence) -> Iterator[str]:
    """Yield reasons for which no control could decide the cause."""
    if evidence.base is not None and not base_has_learned(evidence.base):
        share = percent(evidence.base.accuracy)
        yield f"the base model scores only {share} on its own tasks"
    if evidence.base_has_tasks and evidence.base is None:
        yield "the base model was not scored on its own tasks"
    for other in others_that_succeed(evidence, is_bound_alike=True):
        yield f"a method with the same restriction succeeds: {score_in_words(evidence, other)}"


def _doubts(evidence: DiagnosisEvidence) -> Iterator[str]:
    """Yield measurements that speak against a limit of the method."""
    subject = evidence.subject
    if good := successes(evidence, evidence.same):
        yield f"a single trial of many scores {evidence.figure(good[0].score or 0)}"
    if low := low_trials(evidence):
        trials = counted(len(subject.trials), "trial")
        yield f"{len(low)} of {trials} learn their training items, and not those held out"
    if (falling := falls_with_steps(evidence)) is not None:
        before, last = falling
        yield f"the training loss still falls with the steps, from {before:.2f} to {last:.2f} nats"
    if (rate := best_rate_at_end(evidence)) is not None:
        yield f"the training loss is lowest at a rate of {rate:g}, an end of those tried"


def _missing(evidence: DiagnosisEvidence) -> Iterator[str]:
    """Yield what reach lacks, as noun phrases."""
    subject = evidence.subject
    if max(len(ended_seeds(one)) for one in evidence.same) < LEAST_SEEDS:
        yield f"{LEAST_SEEDS} seeds that did not diverge"
    if longest(evidence) is None:
        yield "twice the steps over three powers of ten of learning rates"
    grows = any(has_learned(evidence, one.score) for one in larger_sizes(evidence))
    if can_grow(subject) and not grows and not larger_sizes_trained_as_well(evidence):
        yield "a larger size, with the same steps and rates"
    if not others_that_succeed(evidence) and not grows:
        at_most = f" of at most {subject.parameters:,} parameters" if can_grow(subject) else ""
        yield f"another method{at_most} that succeeds"
    if subject.pins_attention and not pinned_decides(evidence):
        yield "fine-tuning with pinned attention, with the reference's steps and rates"


def _open(evidence: DiagnosisEvidence, missing: tuple[str, ...], run: Proposal | None) -> Diagnosis:
    """Return an undecided diagnosis, with the run that would decide it."""
    if waiting := awaited(evidence):
        have = "has" if len(waiting) == 1 else "have"
        text = f"Undecided until {counted(len(waiting), 'control')} {have} ended."
        return _answer(evidence, "undecided", text, missing=missing)
    if run is None:
        return _stopped(evidence, f"this was tried and failed: {missing[0]}", missing)
    are = "is" if len(missing) == 1 else "are"
    text = (
        f"Undecided why {_failure_in_words(evidence)}: "
        f"{counted(len(missing), 'measurement')} {are} missing."
    )
    return _answer(evidence, "undecided", text, missing=missing, run=run)


def _stopped(evidence: DiagnosisEvidence, because: str, missing: tuple[str, ...] = ()) -> Diagnosis:
    text = f"Why {_failure_in_words(evidence)} cannot be decided here, because {because}."
    return _answer(evidence, "undecided", text, missing=missing)


def _failure_in_words(evidence: DiagnosisEvidence) -> str:
    """Return the subject with its failure, as a clause."""
    partly = "learns only a part of the task" if has_learned_partly(evidence) else "fails"
    return f"{method_in_sentence(evidence.subject.method)} {partly}"


def _answer(
    evidence: DiagnosisEvidence,
    cause: Cause,
    text: str,
    refuted_by: str = "",
    *,
    missing: tuple[str, ...] = (),
    run: Proposal | None = None,
) -> Diagnosis:
    return Diagnosis(
        method=evidence.subject.method,
        cause=cause,
        text=text,
        reasons=facts(evidence),
        refuted_by=refuted_by,
        missing=missing,
        next_run=None if run is None else run.extension,
        next_run_text="" if run is None else run.text,
        minutes=None if run is None else run.minutes,
        equivalent=evidence.equivalent,
    )
