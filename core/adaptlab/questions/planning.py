"""The plan of a study with a question: what is known, what runs next.

`look` is a function of the question and of the finished passes alone: the same passes give the same
plan, on any machine and however often one asks.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from adaptlab.figures import counted, listed
from adaptlab.questions.goals import Goal, Goals, goals_of
from adaptlab.questions.lengths import length_of
from adaptlab.questions.passes import (
    ComparisonPlace,
    MethodState,
    PassKind,
    TableState,
    TrainingPass,
)
from adaptlab.questions.rates import FIRST_EVIDENCE_SEED, SWEEP_SEEDS, Tuned, Untuned, tuning
from adaptlab.questions.statements import QuestionEvidence, Rule, Standing, rule_of
from adaptlab.questions.wording import ending_sentence, goal_text, table_sentence
from adaptlab.statistics.anytime import least_seeds
from adaptlab.statistics.scores import guessing_accuracy
from adaptlab.studies.question import QuestionLimits
from adaptlab.studies.study import QuestionSpec
from adaptlab.values import Value

FEWEST_SEEDS = 3
PATIENCE = 4
"""Seeds after the first ones before a goal beyond the limit of seeds is given up."""
LARGEST_BLOCK = 8

Ending = Literal["answered", "given_up", "limit"]
MethodStage = Literal["tuning", "compared", "settled", "out", "failed"]


class NextPass(Value):
    """A pass to be run, and why."""

    place: ComparisonPlace
    method: str
    kind: PassKind
    seeds: tuple[int, ...]
    rates: tuple[float, ...]
    replicate_steps: int
    reason: str
    times_longer: int = 1


class MethodStanding(Value):
    """One method of a table: its stage, its chosen rate and its score.

    `accuracy` is the mean over `seeds`, on test items; None before the first.
    """

    label: str
    stage: MethodStage
    rate: float | None
    is_edge: bool
    falls: bool
    seeds: int
    accuracy: float | None
    replicate_steps: int


class GoalStanding(Value):
    """Something to settle, in any of several ways.

    A way is a set of statements that must all be shown.

    `needs` is the number of seeds of each method at which it should be settled, None if that is
    beyond projection, and `cost` the replicate-steps until then.
    """

    methods: tuple[str, ...]
    settled: bool
    ways: tuple[tuple[Standing, ...], ...]
    seeds: int
    needs: int | None
    cost: int | None
    text: str


class TableStanding(Value):
    """The findings at one place, and the evidence that shows a statement.

    Methods are trained for `times_longer` times the steps of the study.
    """

    place: ComparisonPlace
    threshold: float
    answered: bool
    methods: tuple[MethodStanding, ...]
    goals: tuple[GoalStanding, ...]
    ruled_out: tuple[Standing, ...]
    sentence: str
    times_longer: int = 1


class StudyKnowledge(Value):
    """What a study knows after some passes, and what it does next.

    `unneeded` are the numbers of passes that have not ended and whose results cannot matter. With
    an `ending`, nothing further is planned. `replicate_steps` counts what ended, and
    `fixed_replicate_steps` what a fixed grid with as many seeds for every method would have cost.
    """

    tables: tuple[TableStanding, ...]
    passes: tuple[NextPass, ...]
    unneeded: tuple[int, ...]
    ending: Ending | None
    replicate_steps: int
    fixed_replicate_steps: int
    sentence: str


def look(
    question: QuestionSpec, tables: Sequence[TableState], hours: float = 0.0
) -> StudyKnowledge:
    """Return what is known and what to do next.

    `hours` is the time since the study began. Passes that are open are waited for.
    """
    views = [_Table(question, table, len(tables)) for table in tables]
    planned = [one for view in views for one in view.planned()]
    used = sum(one.state != "dropped" for table in tables for one in _passes(table))
    room = question.at_most.jobs - used
    out_of_time = question.at_most.hours is not None and hours >= question.at_most.hours
    passes = [] if out_of_time else planned[: max(0, room)]
    is_open = any(one.state == "open" for view in views for one in view.needed_open())
    ending: Ending | None = None
    if all(view.answered for view in views):
        ending, passes = "answered", []
    elif not passes and not is_open:
        ending = "limit" if planned or any(view.at_limit for view in views) else "given_up"
    standings = tuple(view.standing() for view in views)
    spent = sum(one.replicate_steps for table in tables for one in _passes(table) if _ran(one))
    fixed = sum(view.fixed_cost() for view in views)
    return StudyKnowledge(
        tables=standings,
        passes=tuple(passes),
        unneeded=tuple(number for view in views for number in view.unneeded(ending)),
        ending=ending,
        replicate_steps=spent,
        fixed_replicate_steps=fixed,
        sentence=ending_sentence([(s.place, s.sentence) for s in standings]),
    )


@dataclass(frozen=True, slots=True)
class _Method:
    state: MethodState
    tuned: Tuned | Untuned | None

    @property
    def rate(self) -> Tuned | None:
        return self.tuned if isinstance(self.tuned, Tuned) else None

    @property
    def seeds(self) -> int:
        return 0 if self.state.scores is None else len(self.state.scores.seeds)

    @property
    def asked_seeds(self) -> int:
        """The seeds of evidence that it has or will have."""
        kept = (one for one in self.state.passes if one.state in ("open", "done"))
        return sum(len(one.seeds) for one in kept if one.kind == "evidence")


class _Table:
    """One table at a look."""

    def __init__(self, question: QuestionSpec, table: TableState, tables: int) -> None:
        self.question = question
        self.whole = table
        self.length = length_of(table, question.at_most.times_longer)
        self.table = table = self.length.table
        self.rule = rule_of(question, len(table.methods), tables)
        self.methods = {
            one.label: _Method(one, None if one.has_failed else tuning(one))
            for one in table.methods
        }
        self.able = [label for label, one in self.methods.items() if not one.state.has_failed]
        scores = {
            label: self.methods[label].state.scores
            for label in self.able
            if self.methods[label].state.scores is not None
        }
        self.evidence = QuestionEvidence(
            {k: v for k, v in scores.items() if v is not None}, self.rule
        )
        scored = [label for label in self.able if label in scores]
        majorities = (one.majority for one in self.evidence.scores.values())
        chance = guessing_accuracy(table.chance, majorities)
        self.goals = (
            goals_of(question, self.evidence, scored, chance)
            if len(scored) > 1
            else Goals((), tuple(scored), {})
        )
        self.waits = [label for label in self.able if label not in scored]

    @property
    def answered(self) -> bool:
        """True if nothing is open between the methods that could be run."""
        return not self.waits and not self.goals.open and len(self.able) > 1

    @property
    def at_limit(self) -> bool:
        """True if an open goal needs more seeds than are allowed."""
        limit = self.question.at_most.seeds
        return any(goal.seeds >= limit or (goal.needs or 0) > limit for goal in self.goals.open)

    def planned(self) -> Iterator[NextPass]:
        """Yield the passes to start: sweeps, first seeds and further ones."""
        first = _first_seeds(self.question, self.rule)
        for label in self.able:
            one = self.methods[label]
            if isinstance(one.tuned, Untuned):
                sweep = one.tuned
                reason = f"{self.length.reason} {sweep.reason}".strip()
                yield self._pass(label, sweep.kind, SWEEP_SEEDS, sweep.rates, reason)
            elif one.rate is not None and not one.asked_seeds and not self._may_be_longer:
                reason = f"Fewer than {counted(first, 'seed')} cannot show anything."
                yield self._evidence(label, first, reason)
        if self.waits or any(self.methods[label].state.under_way() for label in self.goals.left):
            return
        yield from self._more_seeds()

    @property
    def _may_be_longer(self) -> bool:
        """True if a loss that is not known yet may make trainings longer."""
        able = (self.methods[label] for label in self.able)
        return self.length.may_double and any(one.rate is None for one in able)

    def _more_seeds(self) -> Iterator[NextPass]:
        """Yield seeds up to where the cheapest open goal should be settled.

        All methods that the answer still depends on get as many.
        """
        wanted = [(self._target(goal), goal) for goal in self.goals.open]
        reachable = [(target, goal) for target, goal in wanted if target is not None]
        if not reachable:
            return
        target, goal = min(reachable, key=lambda one: one[0])
        involved = dict.fromkeys(label for _, one in reachable for label in one.methods)
        for label in involved:
            if self.methods[label].asked_seeds < target:
                yield self._evidence(label, target, self._why(goal, target))

    def _target(self, goal: Goal) -> int | None:
        """Return the seeds to which a goal is pursued, None if given up."""
        limit = self.question.at_most.seeds
        seeds, needs = goal.seeds, goal.needs
        if seeds >= limit:
            return None
        patience = least_seeds(math.log(self.rule.threshold)) + PATIENCE
        if needs is None or needs > limit:
            return min(limit, seeds + 2) if seeds < patience else None
        return min(limit, max(seeds + 1, needs), seeds + LARGEST_BLOCK)

    def _why(self, goal: Goal, target: int) -> str:
        nearest = goal.nearest
        shown = f"evidence {nearest.evidence:.3g} of {nearest.threshold:.3g}"
        aim = " and ".join(goal.methods)
        if goal.needs is None or goal.needs > self.question.at_most.seeds:
            return f"{aim} are not told apart yet ({shown}); a few more seeds may change that."
        return f"{counted(target, 'seed')} should settle {aim} ({shown})."

    def _evidence(self, label: str, seeds: int, reason: str) -> NextPass:
        one = self.methods[label]
        first = FIRST_EVIDENCE_SEED + one.asked_seeds
        rates = () if one.rate is None or one.rate.rate is None else (one.rate.rate,)
        numbers = tuple(range(first, FIRST_EVIDENCE_SEED + seeds))
        return self._pass(label, "evidence", numbers, rates, reason)

    def _pass(
        self,
        label: str,
        kind: PassKind,
        seeds: tuple[int, ...],
        rates: tuple[float, ...],
        reason: str,
    ) -> NextPass:
        steps = self.methods[label].state.steps * len(seeds) * max(1, len(rates))
        return NextPass(
            place=self.table.place,
            method=label,
            kind=kind,
            seeds=seeds,
            rates=rates,
            replicate_steps=steps,
            reason=reason,
            times_longer=self.length.times,
        )

    def needed_open(self) -> tuple[TrainingPass, ...]:
        """Return the passes that have not ended and may matter."""
        return tuple(
            one
            for label in (*self.goals.left, *self.waits)
            for one in self.methods[label].state.under_way()
        )

    def unneeded(self, ending: Ending | None) -> tuple[int, ...]:
        """Return the numbers of open passes whose results cannot matter."""
        needed: set[int] = set()
        if ending != "answered":
            needed = {one.number for one in self.needed_open()}
        return tuple(
            one.number
            for method in self.table.methods
            for one in method.under_way()
            if one.number not in needed
        )

    def fixed_cost(self) -> int:
        """Return the replicate-steps of a fixed grid with as many seeds."""
        seeds = max((one.seeds for one in self.methods.values()), default=0)
        return sum(
            one.state.steps * max(1, len(one.state.rates)) * seeds for one in self.methods.values()
        )

    def standing(self) -> TableStanding:
        """Return what is known, for readers."""
        methods = tuple(self._method(label, one) for label, one in self.methods.items())
        return TableStanding(
            place=self.table.place,
            threshold=self.rule.threshold,
            answered=self.answered,
            methods=methods,
            goals=tuple(map(self._goal, self.goals.goals)),
            ruled_out=tuple(self.goals.out.values()),
            sentence=table_sentence(
                self.question,
                goals=self.goals,
                accuracies={one.label: one.accuracy for one in methods},
                seeds={one.label: one.seeds for one in methods},
                waits=self.waits,
                failed=[label for label in self.methods if label not in self.able],
                times_longer=self.length.times,
            ),
            times_longer=self.length.times,
        )

    def _goal(self, goal: Goal) -> GoalStanding:
        needs = goal.needs
        cost = None
        if needs is not None:
            steps = sum(self.methods[label].state.steps for label in goal.methods)
            cost = max(0, needs - goal.seeds) * steps
        return GoalStanding(
            methods=goal.methods,
            settled=goal.way is not None,
            ways=goal.ways,
            seeds=goal.seeds,
            needs=needs,
            cost=cost,
            text=goal_text(goal, self.question.at_most.seeds),
        )

    def _method(self, label: str, one: _Method) -> MethodStanding:
        rate = one.rate
        return MethodStanding(
            label=label,
            stage=self._stage(label, one),
            rate=None if rate is None else rate.rate,
            is_edge=rate is not None and rate.is_edge,
            falls=rate is not None and rate.falls,
            seeds=one.seeds,
            accuracy=self.evidence.mean(label) if label in self.evidence.scores else None,
            replicate_steps=sum(
                p.replicate_steps for p in _passes(self.whole) if p.method == label and _ran(p)
            ),
        )

    def _stage(self, label: str, one: _Method) -> MethodStage:
        if one.state.has_failed:
            return "failed"
        if label in self.waits:
            return "tuning"
        if label in self.goals.out:
            return "out"
        is_open = self.waits or any(label in goal.methods for goal in self.goals.open)
        return "compared" if is_open else "settled"


def least_cost(question: QuestionSpec, tables: Sequence[TableState]) -> int:
    """Return the replicate-steps of what always runs: sweeps, first seeds."""
    return sum(_first_cost(question, table, len(tables)) for table in tables)


def most_cost(question: QuestionSpec, tables: Sequence[TableState]) -> int:
    """Return the replicate-steps of every method at the limit of seeds.

    Trainings are as long as they may become.
    """
    longest = 2 ** int(math.log2(question.at_most.times_longer))
    more = sum(
        method.steps * (longest * question.at_most.seeds - first)
        for table in tables
        for first in (_first_seeds(question, rule_of(question, len(table.methods), len(tables))),)
        for method in table.methods
    )
    sweeps = (2 * longest - 2) * sum(_sweep_cost(one) for table in tables for one in table.methods)
    return least_cost(question, tables) + more + sweeps


def fixed_cost(question: QuestionSpec, tables: Sequence[TableState]) -> int:
    """Return the replicate-steps of a grid of all rates at the limit of seeds."""
    return sum(
        method.steps * max(1, len(method.rates)) * question.at_most.seeds
        for table in tables
        for method in table.methods
    )


def _first_seeds(question: QuestionSpec, rule: Rule) -> int:
    """Return the first seeds of a method: as many as can show anything."""
    least = max(FEWEST_SEEDS, least_seeds(math.log(rule.threshold)))
    return min(question.at_most.seeds, least)


def _first_cost(question: QuestionSpec, table: TableState, tables: int) -> int:
    seeds = _first_seeds(question, rule_of(question, len(table.methods), tables))
    return sum(method.steps * seeds + _sweep_cost(method) for method in table.methods)


def _sweep_cost(method: MethodState) -> int:
    sweep = tuning(method.model_copy(update={"passes": ()}))
    rates = len(sweep.rates) if isinstance(sweep, Untuned) else 0
    return method.steps * rates * len(SWEEP_SEEDS)


def limits_text(limits: QuestionLimits) -> str:
    """Return the limits in words: "200 jobs, 30 seeds and 6 hours"."""
    parts = [counted(limits.jobs, "job"), counted(limits.seeds, "seed")]
    if limits.hours is not None:
        parts.append(f"{limits.hours:g} hours")
    if limits.times_longer > 1:
        parts.append(f"trainings {limits.times_longer} times as long")
    return listed(parts)


def _passes(table: TableState) -> Iterator[TrainingPass]:
    for method in table.methods:
        yield from method.passes


def _ran(one: TrainingPass) -> bool:
    return one.state in ("done", "failed")
