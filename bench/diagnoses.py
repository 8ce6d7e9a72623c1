"""Cases with known causes and their diagnoses.

Run `python -m bench.diagnoses`. Some cases are real trainings (`bench.diagnosis_runs`) of which
rates, seeds or controls are withheld, so that the cause is known. The others are constructed:
losses of a smooth optimum over rates with noise of 1 %, drawn from a counter, and controls.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from adaptlab.comparisons.diagnosis import Cause, Diagnosis, diagnose
from adaptlab.comparisons.diagnosis_evidence import BaseEvidence, Schedule, TrialEvidence
from adaptlab.comparisons.diagnosis_measures import SUCCEEDS_FROM
from adaptlab.comparisons.diagnosis_rows import MeasuredRow, SharedSetting, evidence
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.task import TASKS
from bench.diagnosis_runs import BASES, DIGITS, Stored, read

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "diagnosis.md"
MARKER = "<!-- figures -->"
WIDE = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0, 10.0)
SUBJECT = "prefix_tuning-576"
LEARNED_BASE = BaseEvidence(accuracy=0.99, chance=0.0)


@dataclass(frozen=True)
class Case:
    """A table whose `subject` fails for a known reason, trained if `is_real`."""

    name: str
    truth: Cause
    rows: tuple[MeasuredRow, ...]
    subject: str = SUBJECT
    task: str = "sort_descending"
    base: BaseEvidence | None = LEARNED_BASE
    is_real: bool = False

    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis of the subject."""
        task = by_name(TASKS, {"name": self.task, **DIGITS})
        place = SharedSetting(task, task.chance(), self.base)
        diagnosed = evidence(self.rows, "full_finetuning", place)
        return next(
            diagnose(one)
            for one in diagnosed
            if self.subject in (one.subject.method, *one.equivalent)
        )


def cases() -> tuple[Case, ...]:
    """Return all cases, real ones first."""
    return (*_real(read()), *_constructed())


Change = Callable[[MeasuredRow], MeasuredRow]


def _of_rates(*rates: float) -> Change:
    """Keep only these rates, and the accuracy of the best."""
    return lambda row: _with_trials(row, [one for one in row.trials if one.learning_rate in rates])


def _of_seeds(count: int) -> Change:
    return lambda row: _with_trials(row, [one for one in row.trials if one.seed < count])


def _with_trials(row: MeasuredRow, trials: Sequence[TrialEvidence]) -> MeasuredRow:
    best: dict[int, float] = {}
    for one in trials:
        best[one.seed] = max(best.get(one.seed, 0.0), one.score or 0.0)
    mean = math.fsum(best.values()) / len(best)
    return replace(row, trials=tuple(trials), score=mean)


def _real(stored: Stored) -> Iterator[Case]:
    learned = _table(stored, "mixture", "add")
    elicited = Case("", "optimisation", learned, task="add", is_real=True)
    for name, rates in (
        ("1e-4 to 1e-3", (1e-4, 1e-3)),
        ("1e-4 to 1e-2, which succeed", (1e-4, 1e-3, 1e-2)),
        ("1e-4 alone", (1e-4,)),
        ("3 and 10, too high", (3.0, 10.0)),
        ("1 to 10, too high", (1.0, 3.0, 10.0)),
        ("1e-4, and 3 to 10", (1e-4, 3.0, 10.0)),
        ("all", WIDE),
    ):
        case = _changed(elicited, f"skill known, rates {name}", "optimisation", _of_rates(*rates))
        left = next(row.score for row in case.rows if row.label == SUBJECT)
        yield replace(case, truth="none") if left >= SUCCEEDS_FROM else case
    for name in ("sort_descending", "double_histogram"):
        table = _table(stored, "ascending", name)
        new = Case("", "reach", table, task=name, is_real=True)
        # Of the histogram the reference itself has learned no more than a tenth.
        known: Cause = "reach" if name == "sort_descending" else "undecided"
        yield replace(new, name=f"{name} on ascending, everything measured", truth=known)
        yield _changed(
            new, f"{name}, rates to 3e-2", "undecided", _of_rates(1e-4, 1e-3, 1e-2, 3e-2)
        )
        yield _changed(new, f"{name}, one seed", "undecided", _of_seeds(1))
        for without in (f"{SUBJECT}-twice", "prefix_tuning-2304", "lora-576", "pinned_finetuning"):
            rows = tuple(row for row in table if row.label != without)
            yield replace(new, name=f"{name}, without {without}", truth="undecided", rows=rows)
    few = tuple(row for row in _table(stored, "ascending", "sort_descending"))
    lora = Case("", "optimisation", few, subject="lora-576", is_real=True)
    yield _changed(lora, "LoRA, rates 1e-4 and 1e-3", "optimisation", _of_rates(1e-4, 1e-3))
    yield _changed(lora, "LoRA, rates 0.3 to 10", "optimisation", _of_rates(0.3, 1.0, 3.0, 10.0))


def _changed(case: Case, name: str, truth: Cause, change: Change) -> Case:
    """Return the case with changes to the subject and its longer training."""
    rows = tuple(change(r) if r.label.startswith(case.subject) else r for r in case.rows)
    return replace(case, name=name, truth=truth, rows=rows)


def _table(stored: Stored, base: str, task: str) -> tuple[MeasuredRow, ...]:
    shape = MiniGPT.model_validate(BASES[base]["family"]).resolved(8, 9).shape()
    return tuple(
        MeasuredRow(
            label=one.run,
            method=by_name(METHODS, one.method),
            shape=shape,
            steps=one.steps,
            schedule=one.schedule,
            trials=one.trials,
            score=one.score,
        )
        for one in stored.runs
        if (one.base, one.task) == (base, task)
    )


@dataclass(frozen=True)
class Law:
    """Losses of a method over learning rates, lowest at `best`.

    They are higher by `slope` per factor of ten away from it. Above `diverges` a training diverges;
    up to `too_low` it ends higher by 0.5. `half` is how much higher the loss was at half the steps.
    """

    lowest: float
    best: float = 0.1
    slope: float = 0.5
    rates: Sequence[float] = WIDE
    seeds: int = 3
    half: float = 0.0
    diverges: float = math.inf
    too_low: float = 0.0
    accuracy: float = 0.0
    lucky: int = 0


def _trials(law: Law, salt: str) -> tuple[TrialEvidence, ...]:
    draw = random.Random(salt)  # a fixed text: the same cases on every machine
    found: list[TrialEvidence] = []
    for seed in range(law.seeds):
        for number, rate in enumerate(law.rates):
            away = abs(math.log10(rate / law.best))
            loss = law.lowest * (1 + draw.gauss(0, 0.01)) + law.slope * away
            loss += 0.5 * (rate <= law.too_low)
            is_lucky = seed < law.lucky and away < 0.3
            found.append(
                TrialEvidence(
                    seed=seed,
                    trial=number,
                    learning_rate=rate,
                    final_loss=None if rate > law.diverges else 0.02 if is_lucky else loss,
                    half_loss=loss + law.half,
                    score=0.97 if is_lucky else law.accuracy,
                )
            )
    return tuple(found)


def _row(
    label: str, method: dict[str, object], law: Law, *, steps: int = 1000,
    schedule: Schedule = "constant", layers: int = 1,
) -> MeasuredRow:  # fmt: skip
    shape = MiniGPT(layers=layers, width=32).resolved(8, 9).shape()
    row = MeasuredRow(label, by_name(METHODS, method), shape, steps, schedule, (), 0.0)
    return _with_trials(row, _trials(law, label))


GOOD = Law(0.02, best=1e-2, accuracy=0.98)


def _standing(
    law: Law,
    *,
    twice: Law | None = None,
    larger: Law | None = None,
    pinned: Law = GOOD,
    schedule: Schedule = "constant",
    layers: int = 1,
    name: str = "prefix_tuning",
    without: Sequence[str] = (),
) -> tuple[MeasuredRow, ...]:
    """Return a subject with all that a verdict of reach needs."""
    knob = {"prefix_tuning": "length", "soft_prompt": "length", "adapter": "bottleneck"}[name]
    small, large = ({"name": name, knob: size} for size in (18, 72))
    rows = (
        _row("full_finetuning", {"name": "full_finetuning"}, GOOD, layers=layers),
        _row("pinned_finetuning", {"name": "pinned_finetuning"}, pinned, layers=layers),
        _row("lora", {"name": "lora", "rank": 2, "sites": ["q", "v"]}, GOOD, layers=layers),
        _row(SUBJECT, small, law, schedule=schedule, layers=layers),
        _row("twice", small, twice or law, steps=2000, schedule=schedule, layers=layers),
        _row("larger", large, larger or law, layers=layers),
    )
    return tuple(row for row in rows if row.label not in without)


def _constructed() -> Iterator[Case]:
    yield from _constructed_reach()
    stuck = Law(1.4)
    low, high = (1e-5, 1e-4, 1e-3), (0.3, 1.0, 3.0)
    rows_by_cause: list[tuple[str, Cause, tuple[MeasuredRow, ...]]] = [
        ("rates too low, monotone", "undecided", _standing(replace(stuck, rates=low))),
        ("rates too low, alike", "undecided", _standing(Law(1.4, slope=0, rates=low))),
        ("rates too high", "undecided", _standing(replace(stuck, rates=high))),
        ("best at the upper end", "reach", _standing(Law(1.4, best=10.0))),
        ("best at the lower end", "undecided", _standing(Law(1.4, best=1e-4))),
        ("two rates", "undecided", _standing(Law(1.4, rates=(1e-2, 1e-1)))),
        ("two of three rates diverged", "undecided",
         _standing(Law(1.4, rates=(1e-2, 1e-1, 1.0), diverges=1e-2))),
        ("diverged above the best", "reach", _standing(Law(1.4, diverges=0.1))),
        ("single seed", "undecided", _standing(Law(1.4, seeds=1))),
        ("two seeds", "undecided", _standing(Law(1.4, seeds=2))),
        ("cosine", "reach", _standing(stuck, schedule="cosine")),
        ("still falling", "undecided", _standing(Law(1.4, half=0.4))),
        ("twice the steps help", "optimisation",
         _standing(stuck, twice=Law(0.03, accuracy=0.95))),
        ("twice the steps help a little", "optimisation", _standing(stuck, twice=Law(1.1))),
        ("paper's LoRA at 3,000 steps", "optimisation",
         _standing(Law(1.2, best=1e-2, half=0.3), twice=Law(0.9, best=1e-2))),
        ("a larger size succeeds", "size",
         _standing(stuck, larger=Law(0.03, accuracy=0.95))),
        ("middling loss", "reach", _standing(Law(0.35, accuracy=0.27))),
        ("one lucky seed", "optimisation", _standing(Law(1.4, lucky=1))),
        ("two lucky seeds of five", "optimisation", _standing(Law(1.4, lucky=2, seeds=5))),
        ("overfitting", "generalisation", _standing(Law(0.03, slope=0.3))),
        ("overfitting, two seeds", "undecided", _standing(Law(0.03, slope=0.3, seeds=2))),
        ("no pinned reference", "undecided", _standing(stuck, without=["pinned_finetuning"])),
        ("no rival", "undecided", _standing(stuck, without=["lora"])),
        ("no reference", "reach", _standing(stuck, without=["full_finetuning"])),
        ("two layers, deeper attention moves, too few steps", "optimisation",
         _standing(Law(1.4, half=0.3), twice=Law(0.6), layers=2)),
        ("every trial diverged", "undecided", _standing(Law(1.4, diverges=0.0))),
        ("plateau below the rates that succeed", "optimisation",
         _standing(Law(1.4, slope=0, rates=(1e-4, 1e-3, 1e-2), too_low=1e-4))),
        ("twice the steps at one bad rate", "undecided",
         _standing(stuck, twice=Law(1.4, rates=(1e-4,)))),
        ("twice the steps in one seed", "undecided", _standing(stuck, twice=Law(1.4, seeds=1))),
        ("larger at one bad rate", "undecided",
         _standing(stuck, larger=Law(1.4, rates=(1e-4,)))),
        ("larger in one seed", "undecided", _standing(stuck, larger=Law(1.4, seeds=1))),
        ("prefix fails where a soft prompt succeeds", "optimisation",
         (*_standing(stuck, layers=2), _row("soft_prompt", {"name": "soft_prompt", "length": 18},
                                            GOOD, layers=2))),
    ]  # fmt: skip
    yield from (Case(name, truth, rows) for name, truth, rows in rows_by_cause)
    poor = BaseEvidence(accuracy=0.42, chance=0.0)
    yield Case("base not learned", "undecided", _standing(stuck), base=poor)
    yield Case("base not scored", "undecided", _standing(stuck), base=None)


def _constructed_reach() -> Iterator[Case]:
    lower = Law(1.3)
    for name, rows in (
        ("one layer", _standing(Law(1.4), larger=lower)),
        ("two layers", _standing(Law(1.4), larger=lower, layers=2)),
        ("optimum at 0.01", _standing(Law(1.4, best=1e-2))),
        ("optimum at 1", _standing(Law(1.4, best=1.0))),
        ("optimum at 3e-2, five seeds", _standing(Law(1.4, best=3e-2, seeds=5))),
        ("flat optimum", _standing(Law(1.4, slope=0.12))),
        ("sharp optimum", _standing(Law(1.4, slope=2.0))),
        ("loss above chance", _standing(Law(6.4, slope=1.0))),
        ("loss just high", _standing(Law(0.7))),
        ("highest rates diverge", _standing(Law(1.4, diverges=1.0))),
        ("half falling by a little", _standing(Law(1.4, half=0.08))),
        ("four rates", _standing(Law(1.4, rates=(1e-3, 1e-2, 1e-1, 1.0)))),
        ("pinned reference fails too", _standing(Law(1.4), pinned=Law(1.4))),
        ("soft prompt in two layers", _standing(Law(1.4), name="soft_prompt", layers=2)),
        ("adapter", _standing(Law(1.4, best=1e-2), name="adapter")),
    ):
        yield Case(f"reach: {name}", "reach", rows)


CAUSES: tuple[Cause, ...] = ("reach", "size", "optimisation", "generalisation", "undecided", "none")


def table(found: Sequence[tuple[Case, Cause]]) -> str:
    """Return the confusion table in Markdown, by known cause."""
    lines = [
        "| known cause | cases | " + " | ".join(f"diagnosed: {cause}" for cause in CAUSES) + " |",
        "| --- " * (len(CAUSES) + 2) + "|",
    ]
    for is_real in (True, False):
        for truth in CAUSES:
            said = Counter(s for c, s in found if (c.truth, c.is_real) == (truth, is_real))
            if said:
                kind = "real" if is_real else "constructed"
                counts = " | ".join(str(said[cause] or "") for cause in CAUSES)
                lines.append(f"| {truth}, {kind} | {said.total()} | {counts} |")
    return "\n".join(lines)


def main() -> None:
    """Print every case and the table, and write the table to the page."""
    found: list[tuple[Case, Cause]] = [(case, case.diagnosis().cause) for case in cases()]
    for case, said in found:
        mark = "" if case.truth == said else "  <-"
        print(f"{'real' if case.is_real else 'made':5} {case.truth:15} {said:15} {case.name}{mark}")
    print(shown := table(found))
    if PAGE.exists():
        head = PAGE.read_text().partition(MARKER)[0]
        PAGE.write_text(f"{head}{MARKER}\n\n{shown}\n")


if __name__ == "__main__":
    main()
