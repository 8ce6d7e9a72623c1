"""The controls that a claim must declare, so that it is not trivial."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from adaptlab.reproductions.claim import (
    CheckAbove,
    EveryTrialAtMost,
    OfTwoRows,
    PaperClaim,
    PlainTest,
    RowSelector,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
    plain_tests,
)
from adaptlab.reproductions.task_matching import agrees
from adaptlab.specs.spec import Choice

LEARNED = 0.5
"""The least score that shows that a task was learned; a lead of this size shows it too."""


@dataclass(frozen=True, slots=True)
class DeclaredRow:
    """A row of a table: its selector, and the columns that it trains."""

    of: RowSelector
    trained: frozenset[str]

    @property
    def is_base(self) -> bool:
        """Return True for a base model alone."""
        return self.of.method is None


DeclaredRows = Mapping[str, DeclaredRow]


def trained_columns(
    of: RowSelector, columns: Mapping[str, Sequence[Choice]], tasks: Sequence[Choice]
) -> frozenset[str]:
    """Return the columns that show a row on a task that it is trained on.

    `tasks` are those of the study; a row without a task trains all of them.
    """
    if of.method is None:
        return frozenset()
    trained = tasks if of.task is None else (of.task,)
    return frozenset(
        label
        for label, shown in columns.items()
        if any(
            _matches(column, task) or _matches(task, column) for column in shown for task in trained
        )
    )


def missing_controls(claim: PaperClaim, rows: DeclaredRows) -> Iterator[str]:
    """Yield a sentence for every test of the claim that lacks a control.

    - A row that is claimed to fail on the task that it is trained on needs an entry in `controls`:
      another method on the same base model that learns the task, scoring at least `LEARNED`.
    - A row that is claimed to lose or to lack another task must have learned its own, or the base
      model must have had the other.
    - A row that is claimed to learn a task needs the claim that its base model alone fails at it.
    - A row that is claimed to be ahead must have learned its own task, unless the lead is at least
      `LEARNED`; of two rows whose weights are compared, both.
    """
    for given in (claim.given, *claim.given_in.values()):
        shown = (*given, *claim.controls)
        for wording in claim.wordings.values():
            tests = plain_tests(wording.test)
            for test in tests:
                missing = _missing(test, claim, given, (*shown, *tests), rows)
                if missing is not None:
                    yield f"Claim {claim.id!r} needs {missing}."


def is_failure(test: PlainTest, rows: DeclaredRows) -> bool:
    """Return True if the test claims a failure at the trained task."""
    if isinstance(test, EveryTrialAtMost):
        return True
    return isinstance(test, ScoreAtMost) and test.column in rows[test.row].trained


def _missing(
    test: PlainTest,
    claim: PaperClaim,
    given: Sequence[PlainTest],
    shown: Sequence[PlainTest],
    rows: DeclaredRows,
) -> str | None:
    match test:
        case EveryTrialAtMost():
            return _no_success(test.row, rows[test.row].trained, claim.controls, rows)
        case ScoreAtMost() if test.column in rows[test.row].trained:
            return _no_success(test.row, frozenset({test.column}), claim.controls, rows)
        case ScoreAtMost() if not rows[test.row].is_base:
            return _nothing_to_lose(test, shown, rows)
        case ScoreAtLeast() if not rows[test.row].is_base:
            return _nothing_to_learn(test, shown, rows)
        case OfTwoRows():
            return _nothing_learned(test, given, rows)
        case CheckAbove():
            return _unlearned((test.row, test.other), given, rows)
        case _:
            return None


def _no_success(
    row: str, columns: frozenset[str], controls: Sequence[PlainTest], rows: DeclaredRows
) -> str | None:
    base = rows[row].of.base_model
    for one in controls:
        if isinstance(one, ScoreAtLeast) and one.row != row and one.value >= LEARNED:
            other = rows[one.row]
            same = one.column in columns & other.trained and other.of.base_model == base
            if same:
                return None
    return f"a control on the same base model that learns what {row!r} is claimed to fail at"


def _nothing_to_lose(
    test: ScoreAtMost, shown: Sequence[PlainTest], rows: DeclaredRows
) -> str | None:
    if _has_learned(test.row, shown, rows):
        return None
    had = (
        isinstance(one, ScoreAtLeast)
        and one.column == test.column
        and _is_base_of(one.row, test.row, rows)
        for one in shown
    )
    if any(had):
        return None
    return (
        f"a test that {test.row!r} has learned its task, or that its base model had {test.column!r}"
    )


def _nothing_to_learn(
    test: ScoreAtLeast, shown: Sequence[PlainTest], rows: DeclaredRows
) -> str | None:
    is_new = (
        isinstance(one, ScoreAtMost)
        and one.column == test.column
        and one.value < test.value
        and _is_base_of(one.row, test.row, rows)
        for one in shown
    )
    if any(is_new):
        return None
    return (
        f"a test that the base model alone scores less on {test.column!r} than is claimed of "
        f"{test.row!r}"
    )


def _nothing_learned(test: OfTwoRows, given: Sequence[PlainTest], rows: DeclaredRows) -> str | None:
    is_trained = test.column in rows[test.row].trained
    if is_trained and isinstance(test, ScoreAbove) and test.by >= LEARNED:
        return None
    return _unlearned([test.row] if is_trained else [test.row, test.other], given, rows)


def _unlearned(labels: Sequence[str], given: Sequence[PlainTest], rows: DeclaredRows) -> str | None:
    for label in labels:
        if not rows[label].is_base and not _has_learned(label, given, rows):
            return f"a test in `given` that {label!r} has learned its task"
    return None


def _has_learned(row: str, shown: Sequence[PlainTest], rows: DeclaredRows) -> bool:
    return any(
        isinstance(one, ScoreAtLeast)
        and one.row == row
        and one.value >= LEARNED
        and one.column in rows[row].trained
        for one in shown
    )


def _is_base_of(base: str, row: str, rows: DeclaredRows) -> bool:
    return rows[base].is_base and rows[base].of.base_model == rows[row].of.base_model


def _matches(wanted: Choice, task: Choice) -> bool:
    return agrees(wanted, task.model_dump(mode="json"))
