"""The controls that would decide an undecided diagnosis, with their cost."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from adaptlab.comparisons.diagnosis_evidence import DiagnosisEvidence, MethodEvidence, Schedule
from adaptlab.comparisons.diagnosis_measures import (
    DECADES,
    HIGHEST_RATE,
    LEAST_SEEDS,
    ROUNDING,
    TWICE,
    can_grow,
    has_one_rate,
    is_measured,
    larger_sizes_trained_as_well,
    longest,
    others_that_succeed,
    pinned_decides,
    rates_of,
    seeds_of,
    task_is_learnable,
)
from adaptlab.comparisons.row_names import method_in_sentence
from adaptlab.figures import counted, listed
from adaptlab.plugins.method import METHODS
from adaptlab.values import AUTO, Value

REFERENCE = "full_finetuning"
"""The method that shows whether a task can be learned."""
PER_DECADE = 2
"""Learning rates of a control per power of ten."""
MOST_RATES = 13
LONGEST_LABEL = 120
SECONDS_PER_MINUTE = 60


class Proposal(Value):
    """One extension of a study that would decide a diagnosis.

    `extension` is a `StudyExtension` as JSON, `text` its content as a sentence, and `minutes` its
    estimated time on one worker, None if no training was timed.
    """

    extension: dict[str, object]
    text: str
    minutes: float | None


@dataclass(frozen=True, slots=True)
class Control:
    """A training for a diagnosis, with its settings and its time.

    `seconds` is the time per step and replicate, `phrase` what is trained.
    """

    configuration: Mapping[str, object]
    label: str
    phrase: str
    steps: int
    schedule: Schedule
    rates: Sequence[float]
    seconds: float | None
    is_of_subject: bool = True

    def entry(self) -> dict[str, object]:
        """Return the control as a method of a study, as JSON.

        The whole sweep is given, so that settings of the study do not contradict it. Successive
        halving would leave out rates. Another method may have nothing whose scale is swept.
        """
        constant = {"warmup_fraction": 0.0} if self.schedule == "constant" else {}
        training = {"steps": self.steps, "schedule": self.schedule, "learning_rate": AUTO}
        tuning: dict[str, object] = {
            "trials": AUTO,
            "learning_rates": [*self.rates],
            "learning_rate_range": None,
            "halving": None,
        }
        return {
            **self.configuration,
            "label": self.label,
            "training": training | constant,
            "tuning": tuning if self.is_of_subject else tuning | {"initial_scales": []},
        }

    def time(self, seeds: int) -> float | None:
        """Return the estimated time in seconds, None if unknown."""
        if self.seconds is None:
            return None
        return self.seconds * self.steps * len(self.rates) * seeds


def proposal(evidence: DiagnosisEvidence) -> Proposal | None:
    """Return all trainings that a decision lacks, None if all were asked for."""
    lacking = [one for one in _controls(evidence) if one.label not in evidence.present]
    seeds = len(seeds_of(evidence.subject))
    needs_reference = not task_is_learnable(evidence) and evidence.reference is None
    members: dict[str, object] = {}
    phrases = [one.phrase for one in lacking]
    if needs_reference and REFERENCE not in evidence.present:
        members["methods"] = [{"name": REFERENCE}]
        phrases.insert(0, method_in_sentence(REFERENCE))
    if lacking:
        members["controls"] = [one.entry() for one in lacking]
    if seeds < LEAST_SEEDS:
        members["seeds"] = LEAST_SEEDS
    if not members:
        return None
    minutes = _minutes([one.time(max(LEAST_SEEDS, seeds)) for one in lacking])
    text = " ".join(_sentences(phrases, seeds, minutes))
    return Proposal(extension=members, text=text, minutes=minutes)


def _minutes(times: Sequence[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return math.fsum(known) / SECONDS_PER_MINUTE if len(known) == len(times) > 0 else None


def awaited(evidence: DiagnosisEvidence) -> tuple[str, ...]:
    """Return the labels of needed controls that have not ended."""
    return tuple(one.label for one in _controls(evidence) if one.label in evidence.running)


def _sentences(phrases: Sequence[str], seeds: int, minutes: float | None) -> Iterator[str]:
    """Yield what is trained, for how many seeds, and the time that it takes."""
    if phrases:
        yield f"To decide it, train {listed(phrases)}."
    if seeds < LEAST_SEEDS:
        yield f"Every method gets {LEAST_SEEDS} seeds."
    if minutes is not None:
        yield f"About {counted(round(minutes), 'minute')}." if minutes >= 1 else "Under a minute."


def _controls(evidence: DiagnosisEvidence) -> Iterator[Control]:
    """Yield the controls that reach needs and the evidence lacks."""
    subject = evidence.subject
    is_short = longest(evidence) is None
    if is_short:
        yield _longer(subject)
    if can_grow(subject) and subject.larger and not larger_sizes_trained_as_well(evidence):
        name = "" if is_short else f"{method_in_sentence(subject.method)} "
        yield _larger(subject, f"{name}at twice the size")
    if subject.pins_attention and not pinned_decides(evidence):
        yield from _pinned(evidence)
    if subject.rival and not others_that_succeed(evidence) and not _has_rival(evidence):
        yield _rival(subject)


def _has_rival(evidence: DiagnosisEvidence) -> bool:
    """Return True if another method was trained well at the subject's size."""
    most = evidence.subject.parameters
    return any(
        0 < one.parameters <= most and not one.pins_attention and is_measured(one)
        for one in evidence.others
    )


def wide_rates(method: MethodEvidence) -> tuple[float, ...]:
    """Return learning rates from which failing shows something.

    They reach from those tried to the highest usual one, over at least three powers of ten. If
    every trial diverged, they are below those tried.
    """
    tried = rates_of(method)
    if has_one_rate(method):
        return tuple(tried)
    usual = HIGHEST_RATE if method.usual_rates is None else method.usual_rates[1]
    has_diverged = all(one.final_loss is None for one in method.trials)
    high = tried[0] if has_diverged else min(HIGHEST_RATE, max(tried[-1], usual))
    low = min(tried[0], high / 10**DECADES)
    return _grid(low, high)


def _grid(low: float, high: float) -> tuple[float, ...]:
    """Return the rates 1, 3, 10, 30 … between two limits, with both.

    Over many powers of ten, those are enough.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 3) if len(powers) * PER_DECADE <= MOST_RATES + 1 else (1,)
    inside = (float(f"{step}e{power}") for power in powers for step in steps)
    between = {rate for rate in inside if ROUNDING * low < rate < high / ROUNDING}
    return tuple(sorted({low, high, *between}))


def _longer(subject: MethodEvidence) -> Control:
    steps = TWICE * subject.steps
    rates = wide_rates(subject)
    span = f"rates {rates[0]:g} to {rates[-1]:g}"
    name = method_in_sentence(subject.method)
    return Control(
        configuration=subject.configuration,
        label=_label(subject.method, f"{steps:,} steps at a constant rate"),
        phrase=f"{name} for {steps:,} steps at {span}",
        steps=steps,
        schedule="constant",
        rates=rates,
        seconds=subject.seconds,
    )


def _larger(subject: MethodEvidence, phrase: str) -> Control:
    rates = wide_rates(subject)
    return Control(
        configuration=subject.larger,
        label=_label(subject.method, f"twice the size, {subject.steps:,} steps"),
        phrase=phrase,
        steps=subject.steps,
        schedule=subject.schedule,
        rates=rates,
        seconds=subject.seconds,
    )


def _pinned(evidence: DiagnosisEvidence) -> Iterator[Control]:
    """Yield fine-tuning with pinned attention, with the reference's sweep."""
    reference = evidence.reference
    model = reference or evidence.subject
    for name in attention_controls():
        rates = _grid(*METHODS.get(name).learning_rate_range)
        if reference is not None:
            rates = tuple(rates_of(reference))
        yield Control(
            configuration={"name": name},
            label=_label(name, f"{model.steps:,} steps, {counted(len(rates), 'rate')}"),
            phrase=method_in_sentence(name),
            steps=model.steps,
            schedule=model.schedule,
            rates=rates,
            seconds=model.seconds,
            is_of_subject=False,
        )


def _rival(subject: MethodEvidence) -> Control:
    name = str(subject.rival["name"])
    rates = _grid(*METHODS.get(name).learning_rate_range)
    title = method_in_sentence(name)
    return Control(
        configuration=subject.rival,
        label=_label(name, f"at the size of {subject.method}"),
        phrase=f"{title} of the same size",
        steps=subject.steps,
        schedule=subject.schedule,
        rates=rates,
        seconds=subject.seconds,
        is_of_subject=False,
    )


def _label(method: str, ending: str) -> str:
    return f"{method[: LONGEST_LABEL - len(ending) - 2]}, {ending}"


def attention_controls() -> tuple[str, ...]:
    """Return the references that keep the first layer's attention."""
    return tuple(name for name in METHODS.names() if METHODS.get(name).is_attention_control)


def rivals() -> tuple[str, ...]:
    """Return methods without a restriction that follow a budget.

    Those that can change attention come first, the most used before others. Those that add content
    of their own, such as demonstrations, are not among them: what they show is another question.
    """
    every = [(name, METHODS.get(name)) for name in METHODS.names()]
    free = [
        (method.first_layer_attention != "can_change", method.place, name)
        for name, method in every
        if method.size_knob is not None and not method.restriction and not method.moves_content
    ]
    return tuple(name for *_, name in sorted(free))
