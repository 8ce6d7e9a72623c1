"""Simulations of questions: `python -m bench.questions [STUDIES]`.

Without an argument it simulates 300 studies per row and writes the tables to
`docs/reference/simulations.md`; with a number it prints the tables of that many studies.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np

from adaptlab.comparisons.verdict import verdicts
from adaptlab.questions.goals import ALONE, reference_of
from adaptlab.questions.passes import MethodState, Pass, Place, TableState, TriedRate
from adaptlab.questions.planning import Look, NextPass, look
from adaptlab.questions.rates import FIRST_EVIDENCE_SEED
from adaptlab.questions.statements import Statement, rule_of
from adaptlab.statistics import Scores, holm, mean_interval, paired_difference
from adaptlab.statistics.anytime import level, order
from adaptlab.statistics.counts import Remembered
from adaptlab.statistics.limits import clopper_pearson
from adaptlab.statistics.pairs import PairedDifference
from bench.question_shapes import ANSWERABLE, OUTSIDE, SHAPES, UNANSWERABLE, Shape
from bench.simulated import counted, study

STUDIES = 300
FIXED_STUDIES = 100
PEEKING_STUDIES = 100
PROCESSES = 2
STEPS = 1
MOST_SEEDS = 64
TOLERANCE = 0.02
"""The fixed design may answer this share of studies less."""
DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "simulations.md"
START, END = "<!-- questions -->\n", "\n<!-- end of questions -->"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a simulated study, its cost and what it showed falsely.

    `false_shown` concerns its own looks, `false_ever` every number of seeds up to the limit.
    """

    ending: str
    cost: int
    seeds: int
    false_shown: bool
    false_ever: bool
    wrong_rate: bool


class Simulated:
    """One simulated study of a shape, with all seeds that it may run."""

    def __init__(self, shape: Shape, number: int) -> None:
        self.shape, self.number = shape, number
        self.seeds = shape.question.at_most.seeds
        drawn = study(shape.worlds, self.seeds, shape.items, number, shape.same_seeds)
        self.scores = {one.method: one for one in drawn}
        self.truths = {label: world.truth for label, world in shape.worlds.items()}
        picker = counted(number, 7)
        last = shape.rates - 1
        self.best_rate = {
            label: int(picker.choice((0, last)) if shape.at_edge else picker.integers(0, last + 1))
            for label in shape.worlds
        }
        if shape.bases:
            self.scores = {
                label: self._by_base(one, shape.bases) for label, one in self.scores.items()
            }

    def _by_base(self, scores: Scores, bases: int) -> Scores:
        rows = [scores.outcomes[place % bases] for place in range(self.seeds)]
        return scores.model_copy(update={"outcomes": tuple(rows)})

    def rates(self, label: str) -> tuple[float, ...]:
        """Return the grid of a method's rates."""
        if label == ALONE:
            return ()
        return tuple(float(10 ** (-4 + 0.4 * place)) for place in range(self.shape.rates))

    def tried(self, label: str, rates: Sequence[float]) -> tuple[TriedRate, ...]:
        """Return the results of a sweep, worse away from the best rate."""
        results: list[TriedRate] = []
        for rate in rates:
            away = abs((math.log10(rate) + 4) / 0.4 - self.best_rate[label])
            beyond = max(0.0, away - (0.1 if label in self.shape.narrow else 1.0))
            results.append(
                TriedRate(
                    learning_rate=rate,
                    accuracy=max(0.0, 0.5 - 0.1 * beyond),
                    loss=1 + 0.2 * away,
                    seeds=2,
                )
            )
        return tuple(results)

    def evidence(self, label: str, seeds: int, rate: float | None) -> Scores:
        """Return the scores of a method's first seeds after the sweep, at a rate."""
        whole = self.scores[label]
        if self.missed(label, rate):
            whole = self._missed(label)
        numbers = tuple(range(FIRST_EVIDENCE_SEED, FIRST_EVIDENCE_SEED + seeds))
        return whole.model_copy(update={"seeds": numbers, "outcomes": whole.outcomes[:seeds]})

    def missed(self, label: str, rate: float | None) -> bool:
        """Return True if a narrow method's sweep has missed its best rate."""
        if label not in self.shape.narrow or rate is None:
            return False
        return abs((math.log10(rate) + 4) / 0.4 - self.best_rate[label]) > 0.1

    def _missed(self, label: str) -> Scores:
        own = counted(self.number, 5000).random((self.seeds, self.shape.items))
        packed = np.packbits(own < self.shape.narrow[label], axis=1)
        outcomes = tuple(row.tobytes().hex() for row in packed)
        return self.scores[label].model_copy(update={"outcomes": outcomes})


def run(simulated: Simulated) -> tuple[Look, list[Look], dict[str, float]]:
    """Run a study to its end.

    Returns its last look, all looks, and the true means at the chosen rates.
    """
    shape = simulated.shape
    passes: dict[str, list[Pass]] = {label: [] for label in shape.worlds}
    looks: list[Look] = []
    chosen: dict[str, float | None] = dict.fromkeys(shape.worlds)
    number = 0
    while not looks or looks[-1].ending is None:
        states: list[MethodState] = []
        for label in shape.worlds:
            ran = [one for one in passes[label] if one.kind == "evidence"]
            seeds = sum(len(one.seeds) for one in ran)
            if ran and ran[0].rates:
                chosen[label] = ran[0].rates[0]
            states.append(
                MethodState(
                    label=label,
                    role="method",
                    rates=simulated.rates(label),
                    steps=0 if label == ALONE else STEPS,
                    passes=tuple(passes[label]),
                    scores=simulated.evidence(label, seeds, chosen[label]) if seeds else None,
                )
            )
        place = Place(base_model="base", task="task", budget=512)
        looks.append(look(shape.question, [TableState(place=place, methods=tuple(states))]))
        for one in looks[-1].passes:
            passes[one.method].append(_ended(simulated, one, number))
            number += 1
    truths = {
        label: shape.narrow[label] if simulated.missed(label, chosen[label]) else truth
        for label, truth in simulated.truths.items()
    }
    return looks[-1], looks, truths


def _ended(simulated: Simulated, one: NextPass, number: int) -> Pass:
    tried = () if one.kind == "evidence" else simulated.tried(one.method, one.rates)
    return Pass(
        number=number,
        kind=one.kind,
        method=one.method,
        seeds=one.seeds,
        rates=one.rates,
        replicate_steps=one.replicate_steps,
        state="done",
        tried=tried,
    )


def is_false(statement: Statement, truths: Mapping[str, float]) -> bool:
    """Return True if a statement is false, as of two equal means."""
    gap = truths[statement.first]
    if statement.kind == "exceeds":
        gap -= truths[str(statement.second)]
    excess = gap - statement.by if statement.kind != "below" else statement.by - gap
    return excess <= 1e-9


def shown_falsely(looks: Sequence[Look], truths: Mapping[str, float]) -> bool:
    """Return True if any look shows a false statement."""
    return any(
        one.shown and is_false(one.statement, truths)
        for look in looks
        for table in look.tables
        for one in (
            *table.ruled_out,
            *(one for goal in table.goals for way in goal.ways for one in way),
        )
    )


def false_ever(simulated: Simulated, truths: Mapping[str, float], chosen: Look) -> bool:
    """Return True if a false statement is shown at any number of seeds.

    Of statements about one pair that differ by the margin, the weakest false one bounds the rest.
    """
    shape = simulated.shape
    margin = shape.question.margin
    rule = rule_of(shape.question, len(shape.worlds), 1)
    target = math.log(rule.threshold)
    rates = {one.label: one.rate for one in chosen.tables[0].methods}
    reference = reference_of(shape.question)
    pairs = [
        (first, second)
        for first, second in permutations(shape.worlds, 2)
        if reference is None or reference in (first, second)
    ]
    for seeds in range(3, simulated.seeds + 1):
        scores = {label: simulated.evidence(label, seeds, rates[label]) for label in shape.worlds}
        counting = Remembered()
        for first, second in pairs:
            gap = truths[first] - truths[second]
            by = min((by for by in (-margin, 0.0, margin) if gap <= by + 1e-9), default=None)
            if by is None:
                continue
            pair = order(scores[first], scores[second], rule.item_tail, counting)
            if pair.evidence(by) >= target:
                return True
        if shape.question.decide == "works":
            for label in shape.worlds:
                one = level(scores[label], rule.item_tail, counting)
                wrong = one.above if truths[label] <= margin + 1e-9 else one.below
                if wrong(margin) >= target:
                    return True
    return False


def outcome(name: str, number: int) -> Outcome:
    """Simulate study `number` of a shape."""
    simulated = Simulated(SHAPES[name], number)
    last, looks, truths = run(simulated)
    rates = {one.label: one.rate for one in last.tables[0].methods}
    return Outcome(
        ending=str(last.ending),
        cost=last.replicate_steps,
        seeds=max(one.seeds for one in last.tables[0].methods),
        false_shown=shown_falsely(looks, truths),
        false_ever=false_ever(simulated, truths, last),
        wrong_rate=any(simulated.missed(label, rates[label]) for label in rates),
    )


def pairs_of(scores: Sequence[Scores]) -> list[PairedDifference]:
    """Return the differences of all pairs, in the order of the scores."""
    counting = Remembered()
    return [
        paired_difference(first, second, counting=counting)
        for place, first in enumerate(scores)
        for second in scores[place + 1 :]
    ]


def fixed_answers(name: str, seeds: int, number: int) -> bool:
    """Return True if a fixed design with this many seeds has the answer.

    The verdicts are those of `comparisons.compare`. Methods are measured at their best rates.
    """
    shape = SHAPES[name]
    question, margin = shape.question, shape.question.margin
    drawn = study(shape.worlds, seeds, shape.items, number, shape.same_seeds)
    reference = reference_of(question)
    if reference is not None:
        drawn.sort(key=lambda one: one.method != reference)
    pairs = pairs_of(drawn)
    found = verdicts(pairs, margin)
    if question.decide == "order":
        return all(
            one.finding != "not_known" and one.reason != "alike_on_seeds_run" for one in found
        )
    if question.decide == "best":
        worse = {
            one.pair.second if one.finding == "better" else one.pair.first
            for one in found
            if one.reason == "test"
        }
        left = [one.method for one in drawn if one.method not in worse]
        alike = [
            one
            for one in found
            if one.reason == "within_margin" and {one.pair.first, one.pair.second} <= set(left)
        ]
        return len(left) == 1 or len(alike) == math.comb(len(left), 2)
    # The pairs of the reference come first; they are its score less that of another method.
    return all(
        _settles(question.decide == "works", pair, one, margin)
        for pair, one in zip(pairs[: len(drawn) - 1], drawn[1:], strict=True)
    )


def _settles(works: bool, pair: PairedDifference, scores: Scores, margin: float) -> bool:
    if not works:
        return pair.high < margin or pair.low > margin
    interval = mean_interval(scores)
    low, high = interval.all_seeds_low or 0.0, interval.all_seeds_high or 1.0
    return (pair.high < -margin and low > margin) or pair.low > -margin or high < margin


def fixed_seeds(name: str, answered: float, studies: int = FIXED_STUDIES) -> int | None:
    """Return the fewest seeds at which a fixed design answers as often.

    None is more than 64.
    """

    def is_enough(seeds: int) -> bool:
        allowed = studies * (1 - answered + TOLERANCE)
        missing = 0
        for number in range(studies):
            missing += not fixed_answers(name, seeds, number)
            if missing > allowed:
                return False
        return True

    if not is_enough(MOST_SEEDS):
        return None
    low, high = 2, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def fixed_cost(shape: Shape, seeds: int) -> int:
    """Return the replicate-steps of the full grid with this many seeds."""
    trained = sum(label != ALONE for label in shape.worlds)
    return trained * seeds * shape.rates * STEPS


PEEKED = (
    "four equal lotteries, 1 seed in 5 fails",
    "two equal lotteries, 1 seed in 2 fails",
    "equal means, unlike seeds (80; 100 on 4 of 5; 80 ± 10 %)",
    "30 % and 100 % on 3 seeds of 10",
)


def peeked(name: str, number: int) -> tuple[bool, bool, bool]:
    """Return which fixed tests call a method better, from 3 seeds on.

    The crossed analysis with Holm's correction, once at the last look and at any look; and the
    verdicts over all seeds at any look. All means of the shape are equal.
    """
    simulated = Simulated(SHAPES[name], number)
    last = seen = verdict = False
    for seeds in range(3, simulated.seeds + 1):
        pairs = pairs_of([simulated.evidence(label, seeds, None) for label in simulated.scores])
        last = any(p <= 0.05 for p in holm([pair.seen_p or 1.0 for pair in pairs]))
        seen = seen or last
        verdict = verdict or any(one.reason == "test" for one in verdicts(pairs))
    return last, seen, verdict


def share(wrong: int, studies: int) -> str:
    """Return a share with its binomial interval: "0.4 % (0 to 1.4)"."""
    low, high = clopper_pearson(wrong, studies, 0.95)
    return f"{100 * wrong / studies:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def simulate(
    names: Sequence[str], studies: int, pool: ProcessPoolExecutor
) -> dict[str, list[Outcome]]:
    """Return the outcomes of all studies of the named shapes."""
    return {
        name: list(pool.map(outcome, [name] * studies, range(studies), chunksize=10))
        for name in names
    }


def answered_share(outcomes: Sequence[Outcome]) -> float:
    """Return the share of studies that ended with an answer."""
    return sum(one.ending == "answered" for one in outcomes) / len(outcomes)


def mean_cost(outcomes: Sequence[Outcome]) -> float:
    """Return the mean replicate-steps of a study."""
    return sum(one.cost for one in outcomes) / len(outcomes)


def cost_table(outcomes: Mapping[str, list[Outcome]], fixed: Mapping[str, int | None]) -> str:
    """Return the table of answers, costs and the fixed design of equal power."""
    lines = [
        "| shape | false | answered | seeds | cost | fixed design | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in outcomes.items():
        seeds, cost = fixed[name], mean_cost(found)
        if seeds is None:
            design, ratio = "more than 64 seeds", "—"
            least = fixed_cost(SHAPES[name], MOST_SEEDS)
            ratio = f"> {least / cost:.1f}"
        else:
            full = fixed_cost(SHAPES[name], seeds)
            design, ratio = f"{seeds} seeds, {full:,}", f"{full / cost:.1f}"
        most = sum(one.seeds for one in found) / len(found)
        wrong = share(sum(one.false_ever or one.false_shown for one in found), len(found))
        lines.append(
            f"| {name} | {wrong} | {100 * answered_share(found):.0f} % | {most:.1f} | {cost:.0f} | "
            f"{design} | {ratio} |"
        )
    return "\n".join(lines)


def open_table(outcomes: Mapping[str, list[Outcome]]) -> str:
    """Return the table of questions without an answer."""
    lines = [
        "| shape | false at its looks | false at any number of seeds | answered | seeds | cost | "
        "as a full grid |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in outcomes.items():
        count, cost = len(found), mean_cost(found)
        most = sum(one.seeds for one in found) / count
        grid = cost / fixed_cost(SHAPES[name], 1)
        lines.append(
            f"| {name} | {share(sum(one.false_shown for one in found), count)} | "
            f"{share(sum(one.false_ever or one.false_shown for one in found), count)} | "
            f"{100 * answered_share(found):.0f} % | {most:.1f} | {cost:.0f} | {grid:.1f} seeds |"
        )
    return "\n".join(lines)


def tables_of(studies: int) -> Iterator[str]:
    """Yield headings and tables, each when it is computed."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        answerable = simulate([*ANSWERABLE], studies, pool)
        fewer = min(studies, FIXED_STUDIES)
        names = [*ANSWERABLE]
        shares = [answered_share(answerable[name]) for name in names]
        fixed = dict(
            zip(names, pool.map(fixed_seeds, names, shares, [fewer] * len(names)), strict=True)
        )
        yield f"**Questions with an answer** ({studies:,} studies per row)"
        yield cost_table(answerable, fixed)
        yield f"**Questions without one** ({studies:,} studies per row)"
        yield open_table(simulate([*UNANSWERABLE], studies, pool))
        yield f"**Where an assumption is broken** ({studies:,} studies per row)"
        outside = simulate([*OUTSIDE], studies, pool)
        yield open_table(outside)
        missed = sum(one.wrong_rate for found in outside.values() for one in found)
        yield f"The sweep missed the best rate in {100 * missed / studies:.0f} % of the last shape."
        peeks = min(studies, PEEKING_STUDIES)
        yield f"**Fixed tests, looked at after every seed from 3 to 30** ({peeks:,} studies)"
        yield peeking_table(peeks, pool)


def peeking_table(studies: int, pool: ProcessPoolExecutor) -> str:
    """Return how often fixed tests are wrong at some look."""
    lines = [
        '| false "better" | crossed analysis, at 30 seeds | at any look | verdicts, at any look |',
        "| --- | --- | --- | --- |",
    ]
    for name in PEEKED:
        found = list(pool.map(peeked, [name] * studies, range(studies), chunksize=10))
        cells = [f"{100 * sum(column) / studies:.1f} %" for column in zip(*found, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the tables; without an argument, also write the page."""
    studies = int(arguments[0]) if arguments else STUDIES
    parts: list[str] = []
    for part in tables_of(studies):
        print(part, end="\n\n", flush=True)
        parts.append(part)
    if not arguments:
        text, tables = DOCUMENT.read_text(), "\n\n".join(parts)
        before, after = text.split(START)[0], text.split(END)[1]
        DOCUMENT.write_text(f"{before}{START}\n{tables}\n{END}{after}")
        print(f"written to {DOCUMENT}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
