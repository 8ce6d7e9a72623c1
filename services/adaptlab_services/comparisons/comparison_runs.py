"""Comparisons for servers: computed once, outside every transaction, and then looked up."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab_answers.comparisons import ComparisonProgress, JobComparison
from adaptlab_db.visibility import VISIBLE
from adaptlab_services.comparisons import comparison_results
from adaptlab_services.comparisons.comparison_groups import ComparedTable
from adaptlab_services.comparisons.comparison_inputs import ComparisonInputs
from adaptlab_services.comparisons.comparisons import (
    Question,
    ReadTables,
    StudyQuestion,
    compared,
    compared_table,
)

Units = Callable[[], AbstractContextManager[Session]]
Key = tuple[Question, object]

PATIENCE_SECONDS = 1.0
"""How long a request waits for a comparison before it is answered with its progress."""
MOST_RUNS = 16
"""Comparisons that wait to be computed in one process; who asks for more has to ask again."""
GOOD_SECONDS = 15.0
"""How long what a run came to answers those who wait for it, whatever has changed since."""
LOOK_SECONDS = 0.2


@dataclass(slots=True)
class _Run:
    """A comparison that is computed, and the moment at which that ended."""

    future: Future[JobComparison | None]
    ended: float | None = None

    def is_forgotten(self) -> bool:
        """Return True if nobody asked for the outcome while it was good."""
        return self.ended is not None and time.monotonic() - self.ended > GOOD_SECONDS


class ComparisonRuns:
    """The comparisons that this process computes, one after the other.

    What is computed is kept in the database, table by table, and each table is computed by one
    process at a time. No transaction is open meanwhile.
    """

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions
        self._threads = ThreadPoolExecutor(1, "comparisons")
        self._lock = threading.Lock()
        self._runs: dict[Key, _Run] = {}

    def answer(
        self, units: Units, question: Question, seconds: float | None = None
    ) -> JobComparison | ComparisonProgress:
        """The comparison if it is there within so many seconds (else 1), or how far it is.

        While a study runs, the answer may be that of some seconds ago: a large study would
        otherwise never have one, as its jobs end faster than it is computed. Raises what reading
        the question raises, and what made the run of it fail.
        """
        with units() as session:
            inputs = question.inputs(session)
            key = (_by_id(question, inputs), session.info.get(VISIBLE))
            lacking = comparison_results.missing(session, inputs.digests())
            kept = None if lacking else comparison_results.kept(session, inputs.digests())
        if kept is not None and (found := _assembled(inputs, kept)) is not None:
            return found
        run = self._started(key, units)
        patience = PATIENCE_SECONDS if seconds is None else seconds
        if run is not None and wait([run.future], patience).done:
            with self._lock:
                self._runs.pop(key, None)
            if (found := run.future.result()) is not None:
                return found
        return self._progress(inputs)

    def tables(self, read: ReadTables) -> tuple[TableComparison, ...]:
        """The computed tables of what was read, however long it takes.

        Call it outside of a unit of work.
        """
        inputs = read.inputs()
        for table, digest in zip(read.tables, inputs.digests(), strict=True):
            while not self._is_computed(digest, table, read):
                time.sleep(LOOK_SECONDS)  # another process is at it
        with self._sessions() as session:
            kept = comparison_results.kept(session, inputs.digests())
        found = _assembled(inputs, kept)
        return found.tables if found is not None else compared(read.tables, read.strictness)

    def close(self) -> None:
        """End with the comparison that is computed now; those that wait are not begun."""
        self._threads.shutdown(cancel_futures=True)

    def _started(self, key: Key, units: Units) -> _Run | None:
        """The run that answers the question, None if too many wait."""
        with self._lock:
            for known in [known for known, run in self._runs.items() if run.is_forgotten()]:
                del self._runs[known]
            if (run := self._runs.get(key)) is not None:
                return run
            if len(self._runs) >= MOST_RUNS:
                return None
            run = _Run(self._threads.submit(self._computed, key[0], units))
            self._runs[key] = run
        run.future.add_done_callback(lambda _: setattr(run, "ended", time.monotonic()))
        return run

    def _computed(self, question: Question, units: Units) -> JobComparison | None:
        """The comparison as of now; None while another process computes a table of it."""
        with units() as session:
            read = question.read(session)
        inputs = read.inputs()
        for table, digest in zip(read.tables, inputs.digests(), strict=True):
            self._is_computed(digest, table, read)
        with self._sessions() as session:
            kept = comparison_results.kept(session, inputs.digests())
        return _assembled(inputs, kept)

    def _is_computed(self, digest: str, table: ComparedTable, read: ReadTables) -> bool:
        """Compute and keep a table unless it is there; False if another process is at it."""
        if self._is_kept(digest):
            return True
        with comparison_results.claimed(self._sessions, digest) as mine:
            if mine and not self._is_kept(digest):
                computed = compared_table(table, len(read.tables), read.strictness)
                with self._sessions.begin() as session:
                    comparison_results.keep(session, digest, computed)
        return mine

    def _is_kept(self, digest: str) -> bool:
        with self._sessions() as session:
            return not comparison_results.missing(session, [digest])

    def _progress(self, inputs: ComparisonInputs) -> ComparisonProgress:
        digests = inputs.digests()
        with self._sessions() as session:
            lacking = comparison_results.missing(session, digests)
        return ComparisonProgress(
            study=inputs.study, tables=len(digests), computed=len(digests) - len(lacking)
        )


def _by_id(question: Question, inputs: ComparisonInputs) -> Question:
    """The same question with the id of its study: a name may be another study's elsewhere."""
    if inputs.study is None:
        return question
    return StudyQuestion(str(inputs.study.id), question.strictness)


def _assembled(inputs: ComparisonInputs, kept: Mapping[str, str]) -> JobComparison | None:
    """The comparison of kept tables, None if one of them is not there."""
    digests = inputs.digests()
    if not set(digests) <= set(kept):
        return None
    return inputs.comparison(TableComparison.model_validate_json(kept[one]) for one in digests)
