"""Cases with known causes: no statement is false, and most are decided.

Those of `bench.diagnoses` are real trainings, read from what `python -m bench.diagnosis_runs`
trained, and losses of a smooth optimum. Those of the table below are worlds with known laws, in
which the diagnosis's own proposal is run once.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from adaptlab.comparisons.diagnosis import Cause, Diagnosis, diagnose
from adaptlab.comparisons.diagnosis_evidence import BaseEvidence, TrialEvidence
from adaptlab.comparisons.diagnosis_rows import MeasuredRow, SharedSetting, evidence
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.registry import by_name
from adaptlab.studies.study import StudyExtension
from adaptlab.tasks.sort_descending import SortDescending
from bench.diagnoses import MARKER, PAGE, Case, cases, table

CASES = cases()
TASK = SortDescending(length=6)
SHAPE = MiniGPT(layers=1, width=64).resolved(10, 12).shape()
PREFIX = {"name": "prefix_tuning", "length": 18}
LORA = {"name": "lora", "rank": 2, "sites": ["attn", "mlp"]}
FULL = {"name": "full_finetuning"}
SEARCH = {"name": "autoprompt", "length": 3}
NEVER = 10**9
HIGHER = (0.01, 0.1, 1.0)
SEVEN = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
LOW = (1e-4, 3e-4, 1e-3)


@dataclass(frozen=True)
class Law:
    """The rates, steps and parameters with which a method learns.

    It then scores `high`, and otherwise `low`, where its loss is `loss` nats; above chance (2.08)
    losses differ by seed and rate without coming to rest; others fall by `falls` when
    the steps double. `halfway` is its score from half of the
    steps on. Seeds in `bad` never learn, and above the rate `diverges` nothing ends.
    """

    rates: tuple[float, float] = (1e-3, 1.0)
    steps: int = 0
    parameters: int = 0
    high: float = 0.97
    low: float = 0.0
    halfway: float = 0.0
    loss: float = 3.5
    bad: tuple[int, ...] = ()
    diverges: float = 100.0
    falls: float = 0.0

    def trial(self, seed: int, number: int, rate: float, steps: int, size: int) -> TrialEvidence:
        """Return what a trial of these settings measures."""
        fits = self.rates[0] <= rate <= self.rates[1] and size >= self.parameters
        fits = fits and seed not in self.bad
        learned = fits and steps >= self.steps
        is_halfway = fits and 2 * steps >= self.steps
        low = max(self.low, self.halfway if is_halfway else 0.0)
        noise = 0.3 * ((7 * seed + 3 * number) % 5) if self.loss > 2 else 0.0
        fallen = self.falls * math.log2(steps / 600)
        loss = 0.02 if learned else self.loss + noise - fallen
        return TrialEvidence(
            seed=seed,
            trial=number,
            learning_rate=rate,
            final_loss=None if rate > self.diverges else loss,
            half_loss=loss + 0.1,
            score=self.high if learned else low,
        )


STUCK = Law(steps=NEVER)
GOOD = Law(rates=(1e-5, 10.0))
LOST = Law(steps=NEVER, low=0.03, loss=1.9)
POOR = BaseEvidence(accuracy=0.3, chance=0.0)
LEARNED = BaseEvidence(accuracy=0.97, chance=0.0)


@dataclass(frozen=True)
class World:
    """A study of a prefix, and the laws by which its methods learn.

    `once` is what is said at first, and `truth` after the proposal was run; `says` is part of it.
    """

    name: str
    truth: Cause
    law: Law
    rates: tuple[float, ...] = HIGHER
    once: Cause | None = None
    says: str = ""
    full: Law | None = GOOD
    lora: Law | None = GOOD
    pinned: Law = GOOD
    steps: int = 600
    seeds: int = 3
    method: Mapping[str, Any] | None = None
    base: BaseEvidence | None = LEARNED
    chance: float = 0.004
    alone: float | None = None

    @property
    def subject(self) -> Mapping[str, Any]:
        """The method whose failure is explained."""
        return self.method or PREFIX

    def row(self, label: str, method: Mapping[str, Any], **given: Any) -> MeasuredRow:
        """Return a method as it was trained in this world."""
        name = str(method["name"])
        laws = {"full_finetuning": self.full, "lora": self.lora, "pinned_finetuning": self.pinned}
        law = self.law if name == self.subject["name"] else laws.get(name) or GOOD
        resolved = by_name(METHODS, method)
        size = resolved.trained_scalars(SHAPE)
        rates, steps = given.pop("rates", self.rates), given.pop("steps", self.steps)
        trials = tuple(
            law.trial(seed, number, rate, steps, size)
            for seed in range(given.pop("seeds", self.seeds))
            for number, rate in enumerate(rates)
        )
        best: dict[int, float] = {}
        for one in trials:
            right = 0.0 if one.final_loss is None else one.score or 0.0
            best[one.seed] = max(best.get(one.seed, 0.0), right)
        schedule = given.pop("schedule", "cosine")
        score = sum(best.values()) / len(best)
        return MeasuredRow(label, resolved, SHAPE, steps, schedule, trials, score, **given)

    def rows(self, seeds: int) -> Iterator[MeasuredRow]:
        """Yield the rows of the study."""
        if self.full is not None:
            yield self.row("full_finetuning", FULL, rates=(1e-3, 3e-3, 1e-2), seeds=seeds)
        if self.lora is not None:
            yield self.row("lora", LORA, rates=(5e-3, 1.5e-2, 4.5e-2), seeds=seeds)
        yield self.row("subject", self.subject, seeds=seeds)

    def controls(self, extension: StudyExtension, seeds: int) -> Iterator[MeasuredRow]:
        """Yield what an extension adds."""
        for control in extension.controls:
            assert control.training is not None
            assert control.tuning is not None
            yield self.row(
                control.label or "",
                control.choice().model_dump(),
                rates=control.tuning.learning_rates,
                steps=control.training.steps,
                schedule=control.training.schedule,
                seeds=seeds,
                is_control=True,
                seconds=1e-3,
            )
        for method in extension.methods:
            yield self.row(method.name, method.choice().model_dump(), seeds=seeds)

    def diagnosis(self, rows: list[MeasuredRow]) -> Diagnosis:
        """Return the diagnosis of the subject."""
        labels = frozenset(row.label for row in rows)
        place = SharedSetting(TASK, self.chance, self.base, alone=self.alone, present=labels)
        reference = "full_finetuning" if "full_finetuning" in labels else None
        found = evidence(rows, reference, place)
        return next(diagnose(one) for one in found if one.subject.method == "subject")

    def after_proposal(self, first: Diagnosis) -> Diagnosis:
        """Return the diagnosis after the proposal, if any, was run."""
        if first.next_run is None:
            return first
        extension = StudyExtension.model_validate(first.next_run)
        seeds = extension.seeds if isinstance(extension.seeds, int) else self.seeds
        return self.diagnosis([*self.rows(seeds), *self.controls(extension, seeds)])


def at_rates(first: float, last: float, **others: Any) -> Law:
    return Law(rates=(first, last), **others)


OPEN: Cause = "undecided"
WORLDS = (
    # The seven cases of research/verdicts.md, section 5.
    World("known, good rates", "none", at_rates(0.01, 1, high=0.88), once="none"),
    World("known, rates too low", "optimisation", at_rates(0.01, 1, low=0.26), LOW, OPEN,
          "a rate of"),
    World("known, 12 steps", "optimisation", Law(steps=24, low=0.37), once=OPEN, steps=12),
    World("not reachable", "reach", replace(STUCK, low=0.019), SEVEN, OPEN, "above 1.9 %"),
    World("reference fails", OPEN, STUCK, full=replace(LOST, low=0.09), lora=LOST,
          says="no method"),
    World("known, high rates", "none", at_rates(1, 10, high=0.85), (5.0, 7.0, 10.0), "none"),
    World("reference 3.0 %", OPEN, replace(STUCK, low=0.017), full=LOST, lora=None,
          says="no method learns the task"),
    # The limit of the method.
    World("reach, three rates", "reach", STUCK, once=OPEN),
    World("reach, five seeds", "reach", STUCK, once=OPEN, seeds=5),
    World("reach, one seed", "reach", STUCK, once=OPEN, seeds=1),
    World("reach, two seeds", "reach", STUCK, once=OPEN, seeds=2),
    World("reach, one rate", "reach", STUCK, (0.1,), OPEN),
    World("reach, rates too low", "reach", STUCK, LOW, OPEN),
    World("reach, no reference", "reach", STUCK, full=None, once=OPEN),
    World("reach, nothing else", "reach", STUCK, full=None, lora=None, once=OPEN),
    World("reach, LoRA absent", "reach", STUCK, lora=None, once=OPEN),
    World("reach, LoRA badly tuned", "reach", STUCK, lora=at_rates(0.2, 1), once=OPEN),
    World("reach of a search", "reach", STUCK, (1e-3,), OPEN, method=SEARCH),
    World("reach, pinned fails", "reach", STUCK, pinned=replace(STUCK, low=0.25), once=OPEN),
    World("reach, high rates diverge", "reach", replace(STUCK, diverges=0.5), once=OPEN),
    World("reach of a part", "reach", replace(STUCK, low=0.3), once=OPEN, says="above 30.0 %"),
    World("reach of a bias", "reach", STUCK, once=OPEN, method={"name": "attention_bias"}),
    World("reach of a soft prompt", "reach", STUCK, once=OPEN,
          method={"name": "soft_prompt", "length": 18}),
    World("reach, two choices", "reach", replace(STUCK, low=0.55), chance=0.5, once=OPEN),
    World("reach, base unscored", OPEN, STUCK, base=None, says="was not scored"),
    World("base not learned", OPEN, STUCK, base=POOR, says="30.0 % on its own tasks"),
    # Training.
    World("one rate of three", "none", at_rates(0.05, 0.5), once="none"),
    World("rates too high", "optimisation", at_rates(1e-3, 0.02), (0.3, 1.0, 3.0), OPEN, "rate of"),
    World("rates just too low", "optimisation", at_rates(2e-3, 1), LOW, OPEN),
    World("only the highest rates", "optimisation", at_rates(2, 10), HIGHER, OPEN),
    World("plateau below", "optimisation", at_rates(0.3, 3), (1e-4, 1e-3, 1e-2), OPEN),
    World("all diverge", "optimisation", at_rates(1e-4, 5e-3, diverges=0.009), (0.1, 1.0), OPEN),
    World("too few steps", "optimisation", Law(steps=1000), once=OPEN, says="1,200 instead of 600"),
    World("few steps and bad seeds", "optimisation", Law(steps=1000, bad=(0, 1)), once=OPEN,
          says="constant rate: 6 of 21 trials"),
    World("far too few steps", "optimisation", Law(steps=2000, halfway=0.4), once=OPEN,
          says="rises from 0.0 % to 40.0 %"),
    World("slow, no score yet", OPEN, Law(steps=NEVER, loss=1.2, falls=0.3), once=OPEN,
          says="from 1.20 to 0.90 nats"),
    World("two bad seeds of three", "optimisation", Law(bad=(0, 1)), once="optimisation"),
    World("one bad seed of three", "none", Law(bad=(0,)), once="none", says="on 2 of 3 seeds"),
    World("two bad seeds of five", "none", Law(bad=(0, 1)), seeds=5, once="none"),
    World("four bad seeds of five", "optimisation", Law(bad=(0, 1, 2, 3)), seeds=5),
    # Size and new items.
    World("too small", "size", Law(parameters=2000), once=OPEN, says="with 2,304 parameters"),
    World("much too small", OPEN, Law(parameters=2000), lora=STUCK, full=STUCK),
    World("overfits", "generalisation", Law(steps=NEVER, loss=0.02, low=0.1)),
    World("overfits, one seed", "generalisation", Law(steps=NEVER, loss=0.02, low=0.1),
          seeds=1, once=OPEN),
    # Floors: nothing is said of a score that does not beat them.
    World("constant answer", OPEN, replace(STUCK, low=0.055), full=replace(LOST, low=0.06),
          lora=None, chance=0.0594),
    World("base alone", OPEN, replace(STUCK, low=0.6), full=replace(STUCK, low=0.65), lora=None,
          alone=0.6),
    World("two choices", OPEN, replace(STUCK, low=0.52), full=replace(LOST, low=0.55), lora=None,
          chance=0.5),
    World("most common answer", "reach", replace(STUCK, low=0.31), chance=0.3, once=OPEN),
    # Successes.
    World("learned by a prefix alone", "none", Law(), full=LOST, lora=None),
    World("half of the best", "none", Law(high=0.5), once="none"),
    World("a bad reference", "none", Law(), full=replace(LOST, low=0.3), once="none"),
    World("everything learns", "none", GOOD, once="none"),
)  # fmt: skip


@cache
def judged() -> list[tuple[World, Diagnosis, Diagnosis]]:
    firsts = [(world, world.diagnosis([*world.rows(world.seeds)])) for world in WORLDS]
    return [(world, first, world.after_proposal(first)) for world, first in firsts]


def test_no_statement_is_false():
    for world, first, last in judged():
        assert first.cause in (world.truth, OPEN), world.name
        assert last.cause in (world.truth, OPEN), world.name
        assert world.once in (None, first.cause), world.name
        assert world.says in last.text, world.name


def test_a_proposal_is_run_once_and_ends_it():
    for _, _, last in judged():
        assert last.next_run is None
        assert last.cause != OPEN or "cannot be decided here, because " in last.text


def test_most_of_the_decidable_are_decided():
    decidable = [last.cause for world, _, last in judged() if world.truth != OPEN]
    assert len(WORLDS) >= 40
    assert sum(cause != OPEN for cause in decidable) >= 0.8 * len(decidable)


def test_sentences_are_short_and_hold_no_json():
    for _, first, last in judged():
        for said in (first, last):
            texts = (said.text, said.refuted_by, said.next_run_text, *said.reasons)
            sentences = [one for text in texts for one in text.split(". ")]
            assert not [one for one in sentences if len(one.split()) > 30]
            assert not re.search(r"[{}\[\]]", "".join(sentences))
            assert bool(said.refuted_by) == (said.cause not in ("none", OPEN))


def test_there_are_enough_stored_cases_of_either_kind():
    assert len(CASES) >= 40
    assert sum(case.is_real for case in CASES) >= 20
    assert sum(case.truth == "reach" for case in CASES) >= 10
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_no_stored_failure_is_given_another_cause():
    for case in CASES:
        assert case.diagnosis().cause in (OPEN, "none", case.truth), case.name


def test_four_of_five_stored_cases_of_reach_are_found():
    found = [case.diagnosis().cause for case in CASES if case.truth == "reach"]
    assert found.count("reach") >= 0.8 * len(found)


def test_the_page_shows_the_table_as_it_is():
    said: list[tuple[Case, Cause]] = [(case, case.diagnosis().cause) for case in CASES]
    assert PAGE.read_text().partition(MARKER)[2].strip() == table(said)
