"""Studies with a question: passes, decisions and endings."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, Run, a_measured_study, as_known, run_all
from tests.making import a_base_model, a_principal

from adaptlab.errors import InvalidSpec
from adaptlab.questions.planning import StudyKnowledge
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.studies.study import StudyExtension, StudySpec
from adaptlab_answers.questions import DecisionView, QuestionView
from adaptlab_answers.studies import StudyView
from adaptlab_db.tables import Job, Study, StudyDecision, StudyJob, StudyPass
from adaptlab_services.comparisons import bundles, comparisons
from adaptlab_services.comparisons.comparison_inputs import AS_USUAL
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.errors import StateConflict
from adaptlab_services.jobs import control
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import question_decisions, studies
from adaptlab_services.studies.question_plans import Planned, plan_due
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
RunOf = Callable[[ResolvedSpec], Run]
MOST_JOBS = 1000
METHODS = ["full_finetuning", "lora", "prefix_tuning"]
CRASHES = 20


@pytest.fixture
def ada(sessions: Sessions) -> Principal:
    """Somebody who studies a base model of five replicates."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
        return a_principal(session)


def asked(**changes: Any) -> StudySpec:
    """A study of three methods that asks which is the best."""
    document = a_measured_study(
        **{
            "methods": METHODS,
            "budgets": [64],
            "question": {"at_most": {"seeds": 12}},
            "tuning": {"trials": 5},
        }
        | changes
    )
    del document["seeds"]
    return StudySpec.model_validate(document)


def create(sessions: Sessions, ada: Principal, **changes: Any) -> StudyView:
    with sessions.begin() as session:
        return studies.create(session, ada, asked(**changes), Rules()).study


def current(sessions: Sessions, study: StudyView) -> StudyView:
    with sessions() as session:
        return studies.get(session, str(study.id))


def question_of(sessions: Sessions, study: StudyView) -> QuestionView:
    found = current(sessions, study).question
    assert found is not None
    return found


def decisions(sessions: Sessions, study: StudyView, *, replay: bool) -> tuple[DecisionView, ...]:
    with sessions() as session:
        page = question_decisions.decisions(
            session, str(study.id), replay=replay, page_size=200, most_jobs=MOST_JOBS
        )
    return page.data


def play(sessions: Sessions, run_of: RunOf = as_known) -> None:
    """Run every job and plan what follows, until nothing is left."""
    while True:
        run_all(sessions, run_of)
        plan_due(sessions, MOST_JOBS)
        with sessions() as session:
            if (
                session.scalars(select(Job.id).where(Job.state == "queued").limit(1)).first()
                is None
            ):
                return


def kinds(sessions: Sessions, study: StudyView) -> list[tuple[str, str, str]]:
    return [(one.method, one.kind, one.state) for one in question_of(sessions, study).passes]


class TestAnswering:
    def test_it_begins_with_a_coarse_sweep_of_every_method(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada)
        passes = question_of(sessions, study).passes
        assert sorted((one.method, one.kind, one.seeds) for one in passes) == [
            (method, "sweep", (0, 1)) for method in sorted(METHODS)
        ]
        assert {len(one.rates) for one in passes} == {3}
        assert (study.state, study.cells) == ("running", ())
        with sessions() as session:
            roles = session.scalars(select(StudyJob.role).where(StudyJob.task.is_not(None)))
            assert set(roles) == {"sweep"}

    def test_it_ends_with_the_best_method_at_less_than_a_grid_costs(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada)
        play(sessions, lambda spec: as_half(spec))
        found = question_of(sessions, study)
        assert (found.is_open, found.ending) == (False, "answered")
        assert found.sentence.startswith("Full fine-tuning (100.0 %) is the best")
        assert found.replicate_steps < found.fixed_replicate_steps
        after = current(sessions, study)
        assert (after.state, {cell.method for cell in after.cells}) == ("succeeded", set(METHODS))

    def test_sweeps_are_no_evidence(self, sessions: Sessions, ada: Principal) -> None:
        study = create(sessions, ada)
        play(sessions, as_half)
        seeds = {
            seed for cell in current(sessions, study).cells for j in cell.jobs for seed in j.seeds
        }
        assert seeds
        assert not seeds & {0, 1}

    def test_the_comparison_quotes_the_answer_and_has_no_verdicts_of_its_own(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada)
        play(sessions, as_half)
        with sessions() as session:
            (table,) = comparisons.of_study(session, str(study.id)).tables
        assert table.comparison is not None
        assert table.comparison.sentence == question_of(sessions, study).sentence
        assert [cell.verdicts for cell in table.comparison.cells] == [()]

    def test_it_has_no_bundle(self, sessions: Sessions, ada: Principal) -> None:
        study = create(sessions, ada)
        play(sessions, as_half)
        with pytest.raises(StateConflict, match="chose its own"):
            bundles.frozen(sessions, ComparisonRuns(sessions), str(study.id), AS_USUAL)

    @pytest.mark.long("long trainings")
    def test_equal_methods_are_given_up_before_the_limit(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada, methods=["lora", "adapter"], question={})
        play(sessions, lambda _: Run(right=400, validation=0.9))
        found = question_of(sessions, study)
        assert found.ending == "given_up"
        assert max(m.seeds for table in found.tables for m in table.methods) < 30
        assert current(sessions, study).state == "succeeded"

    def test_the_limit_of_jobs_ends_it(self, sessions: Sessions, ada: Principal) -> None:
        study = create(sessions, ada, question={"at_most": {"jobs": 4}})
        play(sessions, as_half)
        found = question_of(sessions, study)
        assert (found.ending, len(found.passes)) == ("limit", 4)


class TestLength:
    @pytest.mark.long("long trainings")
    def test_all_are_trained_for_longer_while_a_loss_falls(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        limits = {"at_most": {"seeds": 12, "times_longer": 4}}
        study = create(sessions, ada, question=limits)
        play(sessions, lambda spec: falling(spec, until=40))
        found = question_of(sessions, study)
        assert [table.times_longer for table in found.tables] == [2]
        assert {(one.times_longer, one.kind) for one in found.passes} >= {
            (1, "sweep"),
            (2, "sweep"),
        }
        assert {one.times_longer for one in found.passes if one.kind == "evidence"} == {2}
        assert "trained for 2 times the steps" in found.sentence
        with sessions() as session:
            evidence = StudyPass.kind == "evidence"
            steps = select(Job.total_steps).join(StudyPass, StudyPass.job_id == Job.id)
            assert set(session.scalars(steps.where(evidence))) == {40}
        assert {one.replayed for one in decisions(sessions, study, replay=True)} == {True}

    def test_it_is_only_said_if_it_is_not_allowed(self, sessions: Sessions, ada: Principal) -> None:
        study = create(sessions, ada)
        play(sessions, lambda spec: falling(spec, until=40))
        (table,) = question_of(sessions, study).tables
        assert (table.times_longer, table.answered) == (1, True)
        assert {one.label for one in table.methods if one.falls} == {"full_finetuning"}

    @pytest.mark.long("long trainings")
    def test_the_limit_of_length_is_kept(self, sessions: Sessions, ada: Principal) -> None:
        study = create(sessions, ada, question={"at_most": {"seeds": 12, "times_longer": 3}})
        play(sessions, lambda spec: falling(spec, until=10_000))
        (table,) = question_of(sessions, study).tables
        assert (table.times_longer, table.answered) == (2, True)


class TestDecisions:
    def test_every_decision_is_the_same_when_it_is_taken_again(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada)
        play(sessions, as_half)
        taken = decisions(sessions, study, replay=True)
        assert len(taken) > 3
        assert [one.replayed for one in taken] == [True] * len(taken)
        assert [one.ending for one in taken] == [None] * (len(taken) - 1) + ["answered"]
        assert all(one.reason for decision in taken for one in decision.planned)

    def test_a_decision_that_was_tampered_with_is_noticed(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada)
        play(sessions, as_half)
        with sessions.begin() as session:
            one = session.get_one(StudyDecision, (study.id, 2))
            one.look = {**one.look, "sentence": "LoRA is the best."}
        again = {one.number: one.replayed for one in decisions(sessions, study, replay=True)}
        assert [number for number, same in again.items() if not same] == [2]

    def test_nothing_is_decided_twice(self, sessions: Sessions, ada: Principal) -> None:
        study = create(sessions, ada)
        run_all(sessions, as_half)
        threads = [threading.Thread(target=plan_due, args=(sessions, MOST_JOBS)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        passes = question_of(sessions, study).passes
        assert len({one.job for one in passes}) == len(passes)
        assert len(decisions(sessions, study, replay=False)) == 2

    def test_a_study_that_cannot_be_planned_does_not_hold_up_others(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        broken, good = create(sessions, ada), create(sessions, ada, name="good")
        with sessions.begin() as session:
            row = session.get_one(Study, broken.id)
            row.spec = {**row.spec, "tasks": [{"name": "unknown_task"}]}
        run_all(sessions, as_half)
        planned = plan_due(sessions, MOST_JOBS)
        assert (planned.queues, planned.failed) == (("cpu",), {broken.id})
        assert len(decisions(sessions, good, replay=False)) == 2
        assert len(decisions(sessions, broken, replay=False)) == 1

    def test_a_planner_that_dies_anywhere_leaves_the_same_study(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        whole, broken = create(sessions, ada), create(sessions, ada, name="broken")
        moments = random.Random(25)
        crashes = 0
        while any(question_of(sessions, one).is_open for one in (whole, broken)):
            run_all(sessions, as_half)
            for _ in range(CRASHES // 2):
                with dying_after(sessions, moments.randrange(20)) as died:
                    plan_due(sessions, MOST_JOBS)
                crashes += died[0]
            plan_due(sessions, MOST_JOBS)
        found = [question_of(sessions, one) for one in (whole, broken)]
        assert crashes >= CRASHES
        assert found[0].tables == found[1].tables
        assert found[0].ending == found[1].ending == "answered"
        assert [len({one.number for one in f.passes}) for f in found] == [
            len(f.passes) for f in found
        ]


class TestFailures:
    def test_a_failed_method_is_named_and_the_others_are_compared(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada)
        play(sessions, lambda spec: Run(fails=True) if is_of(spec, "lora") else as_half(spec))
        found = question_of(sessions, study)
        assert found.ending == "answered"
        assert "LoRA could not be run" in found.sentence
        assert ("lora", "sweep", "failed") in kinds(sessions, study)

    def test_a_retried_pass_is_waited_for_and_seen(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada)
        play(sessions, lambda spec: Run(fails=True) if is_of(spec, "lora") else as_half(spec))
        with sessions.begin() as session:
            failed = select(StudyPass.job_id).where(StudyPass.state == "failed")
            control.retry(session, ada, session.scalars(failed).one())
        assert question_of(sessions, study).is_open
        play(sessions, as_half)
        assert "could not be run" not in question_of(sessions, study).sentence
        assert ("lora", "evidence", "done") in kinds(sessions, study)

    def test_an_empty_extension_runs_failed_passes_again(
        self, sessions: Sessions, ada: Principal
    ) -> None:
        study = create(sessions, ada)
        play(sessions, lambda spec: Run(fails=True) if is_of(spec, "lora") else as_half(spec))
        with sessions.begin() as session:
            studies.extend(session, ada, str(study.id), StudyExtension(), Rules())
        play(sessions, as_half)
        assert ("lora", "sweep", "dropped") in kinds(sessions, study)
        assert ("lora", "evidence", "done") in kinds(sessions, study)

    def test_a_higher_limit_continues_a_study(self, sessions: Sessions, ada: Principal) -> None:
        study = create(sessions, ada, question={"at_most": {"seeds": 3}})
        play(sessions, as_half)
        assert question_of(sessions, study).ending == "limit"
        with sessions.begin() as session:
            studies.extend(session, ada, str(study.id), StudyExtension(seeds=12), Rules())
        play(sessions, as_half)
        assert question_of(sessions, study).ending == "answered"
        assert {one.replayed for one in decisions(sessions, study, replay=True)} == {True}

    def test_a_cancelled_study_plans_nothing(self, sessions: Sessions, ada: Principal) -> None:
        study = create(sessions, ada)
        with sessions.begin() as session:
            studies.cancel(session, ada, str(study.id))
        assert plan_due(sessions, MOST_JOBS) == Planned((), frozenset())
        after = current(sessions, study)
        assert (after.state, after.jobs["cancelled"]) == ("cancelled", 3)
        with sessions.begin() as session, pytest.raises(StateConflict):
            studies.extend(session, ada, str(study.id), StudyExtension(), Rules())


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "pointer"),
        [
            ({"checks": ["rank_of_bias"]}, "/checks"),
            ({"methods": ["lora"]}, "/methods"),
            ({"question": {"compare": ["lora", "adapter"]}}, "/question/compare"),
            ({"question": {"decide": "works"}}, "/methods"),
            (
                {"question": {"decide": {"within_margin_of": "ia3"}}},
                "/question/decide/within_margin_of",
            ),
            ({"tuning": {"trials": 4, "halving": {"rungs": 1}}}, "/tuning/halving"),
            ({"tuning": {"weight_decays": [0.1, 0.2]}}, "/tuning/weight_decays"),
        ],
    )
    def test_a_study_that_cannot_answer_is_refused(
        self, sessions: Sessions, ada: Principal, changes: dict[str, Any], pointer: str
    ) -> None:
        with sessions.begin() as session, pytest.raises(InvalidSpec) as refused:
            studies.create(session, ada, asked(**changes), Rules())
        assert [problem.pointer for problem in refused.value.problems] == [pointer]

    def test_seeds_are_the_studys_own(self, sessions: Sessions, ada: Principal) -> None:
        spec = asked().model_copy(update={"seeds": 3})
        with sessions.begin() as session, pytest.raises(InvalidSpec, match="chooses its seeds"):
            studies.create(session, ada, spec, Rules())

    def test_the_cost_is_known_before(self, sessions: Sessions, ada: Principal) -> None:
        with sessions() as session:
            preview = studies.preview(session, asked(), Rules())
        cost = preview.question
        assert cost is not None
        assert 0 < cost.least_replicate_steps < cost.most_replicate_steps
        assert cost.most_replicate_steps < cost.fixed_replicate_steps
        assert (preview.new_jobs, preview.jobs) == (3, ())


def as_half(spec: ResolvedSpec) -> Run:
    """Full fine-tuning learns all, LoRA hardly anything, prefixes nothing."""
    runs = {
        "full_finetuning": Run(right=400, loss=0.01, validation=0.9),
        "lora": Run(right=20, loss=0.5, validation=0.1, above=(0.1, 0.0, 0.1)),
    }
    name = str((spec.method or {}).get("name"))
    return runs.get(name, Run(right=0, loss=1.3, above=(0.4, 0.0, 0.3)))


def is_of(spec: ResolvedSpec, method: str) -> bool:
    return (spec.method or {}).get("name") == method


class Died(Exception):
    """Raised in place of a statement."""


@contextmanager
def dying_after(sessions: Sessions, statement: int) -> Iterator[list[bool]]:
    """Let no statement pass after this number; yield if one was refused."""
    left, died = [statement], [False]

    def count(*_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            died[0] = True
            raise Died

    engine = sessions.kw["bind"]
    event.listen(engine, "before_cursor_execute", count)
    try:
        yield died
    except Died:
        pass
    finally:
        event.remove(engine, "before_cursor_execute", count)


def test_a_look_is_stored_whole(sessions: Sessions, ada: Principal) -> None:
    study = create(sessions, ada)
    with sessions() as session:
        stored = session.get_one(StudyDecision, (study.id, 1)).look
    assert StudyKnowledge.model_validate(stored, strict=False).passes


def test_every_sweep_tries_several_rates(sessions: Sessions, ada: Principal) -> None:
    # With a single one, the engine scores no validation items, and the rate would count as useless.
    study = create(sessions, ada, tuning={"learning_rate_range": [0.1, 10], "trials": 3})
    play(sessions, as_half)
    sweeps = [one for one in question_of(sessions, study).passes if one.kind != "evidence"]
    assert {one.kind for one in sweeps} == {"sweep", "wider"}
    assert {len(one.rates) for one in sweeps} == {2, 3}
    assert max(rate for one in sweeps for rate in one.rates) == 10


def test_seeds_that_all_diverge_score_nothing(sessions: Sessions, ada: Principal) -> None:
    study = create(sessions, ada)
    play(sessions, lambda spec: diverging(spec, "lora"))
    (table,) = question_of(sessions, study).tables
    (lora,) = [one for one in table.methods if one.label == "lora"]
    assert (lora.accuracy, lora.stage) == (0.0, "out")
    assert question_of(sessions, study).ending == "answered"


def diverging(spec: ResolvedSpec, method: str) -> Run:
    """As `as_half`, but all seeds of a method diverge at its chosen rate."""
    is_evidence = len(spec.training.trials) == 1
    return Run(fails=True) if is_of(spec, method) and is_evidence else as_half(spec)


def falling(spec: ResolvedSpec, until: int) -> Run:
    """As `as_half`, but full fine-tuning still learns before so many steps."""
    run = as_half(spec)
    if not is_of(spec, "full_finetuning") or spec.training.steps >= until:
        return run
    return replace(run, half=2 * run.loss)
