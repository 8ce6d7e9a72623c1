"""One run of one scenario: jobs, faults, and the result of all."""

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from tests.chaos.invariants import violations
from tests.chaos.runners import content_of
from tests.chaos.scenarios import POISON, Scenario
from tests.chaos.submitting import LABEL, Submitter
from tests.chaos.world import Lab, Making, World, world

LOOK_SECONDS = 0.1
CHECK_SECONDS = 1.0
FAULTY_SHARE = 0.8  # of the jobs may have ended before the faults stop
PATIENCE = 120.0  # seconds in which nothing at all happens, before the rest counts as lost
PATIENCE_WITHOUT = 15.0  # with the defence off: a lease, a wait, a round of the reaper, and more
LONGEST_RUN = 900.0
LATE = 3  # jobs submitted while nobody can be told of them
POISON_ATTEMPTS = 3
ENDED = "state IN ('succeeded', 'failed', 'cancelled')"


@dataclass(frozen=True)
class Outcome:
    """What a run has come to.

    Attributes:
        problems: everything lost, done twice or out of order, in words; the kind comes first.
        attempts: of all jobs together.
        refused: writes of attempts that were over, and of which nothing was written.
        seconds: from the first submission to the last job's end.
    """

    scenario: str
    is_defended: bool
    jobs: int
    faults: Counter[str]
    attempts: int
    refused: int
    seconds: float
    problems: tuple[str, ...]

    def is_caught(self, scenario: Scenario) -> bool:
        """Whether what was found is what the lack of the defence leads to."""
        return not self.kinds.keys().isdisjoint(scenario.shows)

    @property
    def kinds(self) -> Counter[str]:
        """How many problems there are of each kind."""
        return Counter(problem.partition(":")[0] for problem in self.problems)


def run(
    lab: Lab, scenario: Scenario, jobs: int, seed: int, folder: Path, *, defended: bool = True
) -> Outcome:
    """Run a scenario once and say what became of its jobs."""
    with world(lab, _making(scenario, defended=defended), folder) as made:
        return Run(made, scenario, jobs, seed, defended=defended).carry_out()


def _making(scenario: Scenario, *, defended: bool) -> Making:
    making = scenario.making
    if defended:
        return making
    return replace(
        making,
        switches=(*making.switches, *scenario.without),
        statements=(*making.statements, *scenario.without_sql),
        settings={**making.settings, **dict(scenario.without_settings)},
    )


class Run:
    """A scenario under way."""

    def __init__(
        self, world: World, scenario: Scenario, jobs: int, seed: int, *, defended: bool
    ) -> None:
        self._world = world
        self._scenario = scenario
        self._defended = defended
        self._chance = random.Random(f"{seed} {scenario.name}")
        self._steps = _steps(scenario, jobs)
        self._most = max(2, scenario.most * jobs // 100)
        self._faults: Counter[str] = Counter()
        late = LATE if scenario.is_deaf_at_last else 0
        self._submitter = Submitter(
            world, self._steps, scenario.pause, scenario.lost_answers, seed, late
        )
        self._news, self._news_at = -1, time.monotonic()
        self._found: tuple[str, ...] = ()

    def carry_out(self) -> Outcome:
        started = time.monotonic()
        self._submitter.start()
        try:
            self._do_harm(started + LONGEST_RUN / 2)
            self._world.heal()
            if self._scenario.is_deaf_at_last:
                self._submit_unheard(started + LONGEST_RUN / 2)
            self._wait(started + LONGEST_RUN)
            seconds = time.monotonic() - started
        finally:
            self._submitter.close()
        return Outcome(
            self._scenario.name,
            self._defended,
            len(self._steps),
            self._faults,
            self._attempts(),
            self._world.refused,
            seconds,
            tuple(dict.fromkeys((*self._found, *self._problems()))),
        )

    def _do_harm(self, until: float) -> None:
        """Faults at random moments, until enough or most jobs have ended."""
        self._live_while(lambda: not self._submitter.acknowledged, until)
        while self._faults.total() < self._most and not self._is_nearly_over():
            self._live_until(
                time.monotonic() + self._chance.expovariate(1 / self._scenario.interval)
            )
            said = self._scenario.fault(self._world, self._chance)
            if said is not None:
                self._faults[said] += 1
            if (
                self._is_silent()
                or time.monotonic() > until
                or (not self._defended and self._is_caught())
            ):
                return

    def _submit_unheard(self, until: float) -> None:
        """Jobs for idle workers, whose doorbells ring in a broker that is gone."""
        valkey = self._world.lab.servers.valkey
        self._live_while(lambda: not (self._submitter.is_early_done and self._is_idle()), until)
        valkey.end()
        self._submitter.let_go()
        self._live_while(lambda: not self._submitter.is_done, until)
        valkey.start()
        self._world.flush_broker()

    def _live_while(self, condition: Callable[[], bool], until: float) -> None:
        while condition() and not self._is_silent() and time.monotonic() < until:
            self._live_until(time.monotonic() + LOOK_SECONDS)

    def _live_until(self, moment: float) -> None:
        while True:
            self._world.tend()
            left = moment - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, LOOK_SECONDS))

    def _is_nearly_over(self) -> bool:
        rows = self._world.ask(f"SELECT count(*) FROM jobs WHERE {ENDED} AND kind = 'adapt'")
        return bool(rows) and rows[0][0] >= FAULTY_SHARE * len(self._steps)

    def _wait(self, until: float) -> None:
        """Until all jobs have ended, or nothing happens any more."""
        while not self._is_over():
            self._live_until(time.monotonic() + (LOOK_SECONDS if self._defended else CHECK_SECONDS))
            if not self._defended and self._is_caught():
                return
            if self._is_silent() or time.monotonic() > until:
                return

    def _is_over(self) -> bool:
        return self._submitter.is_done and self._is_idle()

    def _is_idle(self) -> bool:
        return self._world.ask(f"SELECT count(*) FROM jobs WHERE NOT {ENDED}") == [(0,)]

    def _is_silent(self) -> bool:
        """Whether nothing has happened for so long that nothing will."""
        rows = self._world.ask("SELECT sum(event_sequence) FROM jobs")
        if rows and rows[0][0] != self._news:
            self._news, self._news_at = rows[0][0], time.monotonic()
        patience = PATIENCE if self._defended else PATIENCE_WITHOUT
        return time.monotonic() > self._news_at + patience

    def _is_caught(self) -> bool:
        """Whether something is wrong already that time cannot mend."""
        self._found = (*self._broken(), *self._twice(), *self._overtried())
        kinds = {problem.partition(":")[0] for problem in self._found}
        return not kinds.isdisjoint(self._scenario.shows)

    def _attempts(self) -> int:
        rows = self._world.ask("SELECT count(*) FROM attempts a JOIN jobs j ON j.id = a.job_id "
                               "WHERE j.kind = 'adapt'")  # fmt: skip
        return rows[0][0] if rows else 0

    def _problems(self) -> tuple[str, ...]:
        return (
            *self._broken(),
            *self._lost(),
            *self._twice(),
            *self._overtried(),
            *self._other_weights(),
            *(f"answered: {error}" for error in self._submitter.errors),
        )

    def _broken(self) -> list[str]:
        try:
            with self._world.sessions() as session:
                found = violations(session)
        except SQLAlchemyError:
            return []
        return [f"{one.invariant}: {one.subject} {one.remark}" for one in found]

    def _lost(self) -> list[str]:
        """Acknowledged jobs that are missing, or did not end as they should."""
        states = {
            job_id: (state, reason, error)
            for job_id, state, reason, error in self._world.ask(
                "SELECT id, state, reason, error FROM jobs"
            )
        }
        problems: list[str] = []
        for number, steps in enumerate(self._steps):
            job_id = self._submitter.acknowledged.get(number)
            if job_id is None:
                problems.append(f"lost: job {number} was never acknowledged")
            elif job_id not in states:
                problems.append(f"lost: job {number} was acknowledged and is not there")
            elif states[job_id][0] not in self._proper_ends(steps):
                problems.append(f"lost: job {number} {job_id} is {states[job_id]}")
        return problems

    def _proper_ends(self, steps: int) -> tuple[str, ...]:
        if steps in POISON:
            return ("failed",)
        return ("succeeded", "cancelled") if self._scenario.may_cancel else ("succeeded",)

    def _twice(self) -> list[str]:
        rows = self._world.ask(
            f"SELECT labels ->> '{LABEL}', count(*) FROM jobs WHERE kind = 'adapt' "
            "GROUP BY 1 HAVING count(*) > 1"
        )
        return [f"twice: job {number} is there {count} times" for number, count in rows]

    def _overtried(self) -> list[str]:
        """Jobs that kill whoever runs them, tried more often than their limit."""
        rows = self._world.ask(
            "SELECT id, attempt FROM jobs WHERE total_steps = ANY(:poison) AND attempt > :most",
            poison=list(POISON),
            most=POISON_ATTEMPTS,
        )
        return [f"overtried: {job_id} is at attempt {attempt}" for job_id, attempt in rows]

    def _other_weights(self) -> list[str]:
        """Jobs whose stored weights are not those that their run made."""
        size = int(self._world.weights)
        rows: list[tuple[UUID, str]] = self._world.ask(
            "SELECT j.id, c.artifact_sha256 FROM jobs j JOIN checkpoints c "
            "ON c.job_id = j.id AND c.attempt = j.attempt "
            "WHERE j.state = 'succeeded' AND j.kind = 'adapt'"
        )
        return [
            f"other_weights: {job_id} has {sha256}"
            for job_id, sha256 in rows
            if hashlib.sha256(content_of(job_id, size)).hexdigest() != sha256
        ]


def _steps(scenario: Scenario, jobs: int) -> list[int]:
    """The length of every job; every tenth goes wrong by itself."""
    steps = [scenario.steps[number % len(scenario.steps)] for number in range(jobs)]
    if scenario.odd:
        for turn, place in enumerate(range(2, jobs, 10)):
            steps[place] = scenario.odd[turn % len(scenario.odd)]
    return steps
