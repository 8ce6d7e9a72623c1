"""Comparisons: computed once, outside transactions, named by inputs."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, a_measured_study_spec, as_known, run_all
from tests.job_rows import change
from tests.making import a_base_model, a_claim, a_ledger, a_principal

from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab_answers.comparisons import ComparisonProgress, JobComparisonView, StudyComparisonView
from adaptlab_db.tables import ComparisonResult, Job
from adaptlab_services.comparisons import (
    comparison_inputs,
    comparison_results,
    comparison_runs,
    comparisons,
)
from adaptlab_services.comparisons.comparison_groups import ComparedTable
from adaptlab_services.comparisons.comparison_inputs import AS_USUAL, Strictness
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.comparisons import JobsQuestion, Question, StudyQuestion
from adaptlab_services.comparisons.stored_comparison import StoredComparison
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
SMALL = StudyQuestion("small")
TASKS = [
    {"name": name, "length": 3, "alphabet": 4} for name in ("sort_descending", "sort_ascending")
]
LONG = 60.0


@pytest.fixture
def runs(sessions: Sessions) -> Iterator[ComparisonRuns]:
    made = ComparisonRuns(sessions)
    yield made
    made.close()


@pytest.fixture
def study(sessions: Sessions) -> None:
    """A study of two tasks, so of two tables, whose jobs are queued."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
        spec = a_measured_study_spec(tasks=TASKS)
        studies.create(session, a_principal(session), spec, Rules())


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks of the tables that are computed from now on."""
    tasks: list[str] = []
    compute = comparisons.compared_table

    def count(table: ComparedTable, strictness: Strictness) -> TableComparison:
        tasks.append(table.task)
        return compute(table, strictness)

    monkeypatch.setattr(comparison_runs, "compared_table", count)
    return tasks


class Gate:
    """Holds the computing of tables until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, counted: list[str]) -> Iterator[Gate]:
    gate = Gate()
    compute = comparison_runs.compared_table

    def hold(table: ComparedTable, strictness: Strictness) -> TableComparison:
        gate.entered.release()
        assert gate.opened.wait(LONG)
        return compute(table, strictness)

    monkeypatch.setattr(comparison_runs, "compared_table", hold)
    yield gate
    gate.opened.set()


def answered(
    runs: ComparisonRuns, sessions: Sessions, question: Question = SMALL
) -> JobComparisonView:
    found = runs.answer(sessions.begin, question, LONG)
    assert isinstance(found, StoredComparison)
    return found.whole()


def plain(sessions: Sessions, strictness: Strictness = AS_USUAL) -> StudyComparisonView:
    with sessions.begin() as session:
        return comparisons.of_study(session, "small", strictness)


@pytest.mark.usefixtures("study")
def test_what_is_kept_is_what_is_computed_in_the_plain_way(
    sessions: Sessions, runs: ComparisonRuns, counted: list[str]
) -> None:
    """While nothing is measured, half way, with a failure, and at the end."""
    assert answered(runs, sessions) == plain(sessions)
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    change(sessions, claim.job_id, step=3)
    assert answered(runs, sessions) == plain(sessions)
    assert "is running, at step 3 of" in " ".join(one.text for one in plain(sessions).warnings)
    ledger.fail(claim, "diverged", "The loss is not finite", retry=False)
    run_all(sessions, as_known)
    for strictness in (AS_USUAL, Strictness(level=0.8, margin=0.05)):
        question = StudyQuestion("small", strictness)
        assert answered(runs, sessions, question) == plain(sessions, strictness)
        before = len(counted)
        assert answered(runs, sessions, question) == plain(sessions, strictness)
        assert len(counted) == before  # not computed again


@pytest.mark.usefixtures("study")
def test_chosen_jobs_are_kept_as_they_are_compared_in_the_plain_way(
    sessions: Sessions, runs: ComparisonRuns, counted: list[str]
) -> None:
    run_all(sessions, as_known)
    with sessions.begin() as session:
        ids = tuple(session.scalars(select(Job.id).where(Job.kind == "adapt").limit(4)))
        expected = comparisons.of_jobs(session, ids)
    assert answered(runs, sessions, JobsQuestion(ids)) == expected
    before = len(counted)
    assert answered(runs, sessions, JobsQuestion(ids)) == expected
    assert len(counted) == before


@pytest.mark.usefixtures("study")
def test_a_step_computes_nothing_and_the_end_of_a_job_its_own_table(
    sessions: Sessions, runs: ComparisonRuns, counted: list[str]
) -> None:
    answered(runs, sessions)
    claim = a_claim(a_ledger(sessions))
    counted.clear()
    change(sessions, claim.job_id, step=2)
    answered(runs, sessions)
    assert counted == []
    a_ledger(sessions).fail(claim, "diverged", "The loss is not finite", retry=False)
    answered(runs, sessions)
    assert len(counted) == 1


@pytest.mark.usefixtures("study")
def test_other_code_computes_again(
    sessions: Sessions,
    runs: ComparisonRuns,
    counted: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_all(sessions, as_known)
    answered(runs, sessions)
    counted.clear()
    monkeypatch.setattr(comparison_inputs, "statistics_version", lambda: "the next one")
    answered(runs, sessions)
    assert len(counted) == 2


@pytest.mark.usefixtures("study")
def test_no_transaction_is_open_while_a_comparison_is_computed(
    sessions: Sessions, runs: ComparisonRuns, gate: Gate
) -> None:
    run_all(sessions, as_known)
    progress = runs.answer(sessions.begin, SMALL, 0)
    assert isinstance(progress, ComparisonProgress)
    assert gate.entered.acquire(timeout=LONG)
    open_ones = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
    )
    with sessions.begin() as session:
        assert session.execute(open_ones).scalar_one() == 0
    gate.opened.set()
    answered(runs, sessions)


@pytest.mark.usefixtures("study")
def test_progress_is_answered_until_all_tables_are_there(
    sessions: Sessions, runs: ComparisonRuns, gate: Gate
) -> None:
    run_all(sessions, as_known)
    progress = runs.answer(sessions.begin, SMALL, 0)
    assert isinstance(progress, ComparisonProgress)
    assert progress.study is not None
    assert (progress.study.name, progress.tables, progress.computed) == ("small", 2, 0)
    gate.opened.set()
    assert answered(runs, sessions) == plain(sessions)


@pytest.mark.usefixtures("study")
def test_two_servers_compute_a_table_once(
    sessions: Sessions, runs: ComparisonRuns, gate: Gate, counted: list[str]
) -> None:
    run_all(sessions, as_known)
    runs.answer(sessions.begin, SMALL, 0)
    assert gate.entered.acquire(timeout=LONG)
    other = ComparisonRuns(sessions)
    with sessions.begin() as session:
        read = SMALL.read(session)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(other.tables, read)  # as a bundle does
        assert not gate.entered.acquire(timeout=1), "the second server computes the table too"
        gate.opened.set()
        tables = waiting.result(LONG)
    other.close()
    assert tables == plain(sessions).tables
    answered(runs, sessions)
    assert sorted(counted) == sorted(set(counted))


@pytest.mark.usefixtures("study")
def test_a_running_study_is_answered_though_its_jobs_end_meanwhile(
    sessions: Sessions, runs: ComparisonRuns, gate: Gate
) -> None:
    assert isinstance(runs.answer(sessions.begin, SMALL, 0), ComparisonProgress)
    assert gate.entered.acquire(timeout=LONG)
    ledger = a_ledger(sessions)
    ledger.fail(a_claim(ledger), "diverged", "The loss is not finite", retry=False)
    gate.opened.set()
    assert isinstance(runs.answer(sessions.begin, SMALL, LONG), StoredComparison)


@pytest.mark.usefixtures("study")
def test_a_fault_is_raised_to_who_asks_and_the_next_request_tries_again(
    sessions: Sessions, runs: ComparisonRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = comparison_runs.compared_table

    def fail(*_: object) -> TableComparison:
        raise ArithmeticError("no such quantile")

    monkeypatch.setattr(comparison_runs, "compared_table", fail)
    with pytest.raises(ArithmeticError, match="no such quantile"):
        runs.answer(sessions.begin, SMALL, LONG)
    monkeypatch.setattr(comparison_runs, "compared_table", compute)
    assert answered(runs, sessions) == plain(sessions)


@pytest.mark.usefixtures("study")
def test_what_is_old_or_too_much_is_deleted(sessions: Sessions, runs: ComparisonRuns) -> None:
    answered(runs, sessions)
    answered(runs, sessions, StudyQuestion("small", Strictness(level=0.9)))
    with sessions.begin() as session:
        digests = StudyQuestion("small", Strictness(level=0.9)).inputs(session).digests()
        old = ~ComparisonResult.digest.in_(digests)
        past = func.now() - comparison_results.LONGEST_UNUSED - comparison_results.USE_NOTED_AFTER
        session.execute(update(ComparisonResult).where(old).values(used_at=past))
        comparison_results.forget(session)
        assert set(session.scalars(select(ComparisonResult.digest))) == set(digests)
        sizes = session.scalars(select(ComparisonResult.size_bytes)).all()
        comparison_results.forget(session, sum(sizes) - 1)
        assert session.scalars(select(func.count()).select_from(ComparisonResult)).one() == 1
