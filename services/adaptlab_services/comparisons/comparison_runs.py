"""Comparisons on servers: computed outside transactions, then cached."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab_answers.comparisons import ComparisonProgress
from adaptlab_db.visibility import RECEIVING, VISIBLE
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
from adaptlab_services.comparisons.stored_comparison import StoredComparison

Units = Callable[[], AbstractContextManager[Session]]
Key = tuple[Question, object]

PATIENCE_SECONDS = 1.0
"""How long a request waits for a comparison before it gets the progress."""
MOST_RUNS = 16
"""Limit on queued comparisons per process; others must be requested again."""
GOOD_SECONDS = 15.0
"""How long a result answers those who wait for it, whatever has changed."""
LOOK_SECONDS = 0.2


@dataclass(slots=True)
class _Run:
    """A comparison being computed; `ended` is when that ended."""

    future: Future[StoredComparison | None]
    ended: float | None = None

    def is_forgotten(self) -> bool:
        """Return True if no request took the result in time."""
        return self.ended is not None and time.monotonic() - self.ended > GOOD_SECONDS


class ComparisonRuns:
    """The comparisons that this process computes, one after the other.

    Results are cached in the database, table by table, and each table is computed by one process at
    a time. No transaction is open meanwhile.
    """

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions
        self._threads = ThreadPoolExecutor(1, "comparisons")
        self._lock = threading.Lock()
        self._runs: dict[Key, _Run] = {}

    def answer(
        self, units: Units, question: Question, seconds: float | None = None
    ) -> StoredComparison | ComparisonProgress:
        """Return the comparison, or its progress after `seconds` (default 1).

        While a study runs, the answer can be up to `GOOD_SECONDS` old. Without this, a large study
        might never have one, because its jobs can end faster than the comparison is computed.

        Raises the errors of reading the question and of computing the answer.
        """
        with units() as session:
            inputs = question.inputs(session)
            key = (_by_id(question, inputs), _seen_by(session))
            lacking = comparison_results.missing(session, inputs.digests())
            cached = None if lacking else comparison_results.kept(session, inputs.digests())
        if cached is not None and (stored := StoredComparison.of(inputs, cached)) is not None:
            return stored
        run = self._started(key, units)
        patience = PATIENCE_SECONDS if seconds is None else seconds
        if run is not None and wait([run.future], patience).done:
            with self._lock:
                self._runs.pop(key, None)
            if (stored := run.future.result()) is not None:
                return stored
        return self._progress(inputs)

    def tables(self, read: ReadTables) -> tuple[TableComparison, ...]:
        """Compute the tables and return them, however long it takes.

        Call it outside a unit of work.
        """
        inputs = read.inputs()
        for table, digest in zip(read.tables, inputs.digests(), strict=True):
            while not self._is_computed(digest, table, read):
                time.sleep(LOOK_SECONDS)  # another process is computing it
        with self._sessions() as session:
            cached = comparison_results.kept(session, inputs.digests())
        stored = StoredComparison.of(inputs, cached)
        if stored is not None:
            return stored.whole().tables
        return compared(read.tables, read.strictness)

    def close(self) -> None:
        """Finish the current comparison and drop the queued ones."""
        self._threads.shutdown(cancel_futures=True)

    def _started(self, key: Key, units: Units) -> _Run | None:
        """Return the question's run, or None if too many are queued."""
        with self._lock:
            for forgotten in [other for other, run in self._runs.items() if run.is_forgotten()]:
                del self._runs[forgotten]
            if (run := self._runs.get(key)) is not None:
                return run
            if len(self._runs) >= MOST_RUNS:
                return None
            run = _Run(self._threads.submit(self._computed, key[0], units))
            self._runs[key] = run
        run.future.add_done_callback(lambda _: setattr(run, "ended", time.monotonic()))
        return run

    def _computed(self, question: Question, units: Units) -> StoredComparison | None:
        """Return the comparison, or None while another process computes a table."""
        with units() as session:
            read = question.read(session)
        inputs = read.inputs()
        for table, digest in zip(read.tables, inputs.digests(), strict=True):
            self._is_computed(digest, table, read)
        with self._sessions() as session:
            cached = comparison_results.kept(session, inputs.digests())
        return StoredComparison.of(inputs, cached)

    def _is_computed(self, digest: str, table: ComparedTable, read: ReadTables) -> bool:
        """Compute and cache a table; return False if another process is doing so."""
        if self._is_kept(digest):
            return True
        with comparison_results.claimed(self._sessions, digest) as mine:
            if mine and not self._is_kept(digest):
                computed = compared_table(table, read.strictness)
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
    """Return the question with the study's id, as names differ by project."""
    if inputs.study is None:
        return question
    return StudyQuestion(str(inputs.study.id), question.strictness)


def _seen_by(session: Session) -> tuple[object, object]:
    """Return a key of the rows that the session sees."""
    return session.info.get(VISIBLE), session.info.get(RECEIVING)
