"""From the rows of a table to the evidence of a diagnosis: which row says what about which."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adaptlab.comparisons.diagnosis_evidence import (
    BaseEvidence,
    Evidence,
    MethodEvidence,
    Schedule,
    TrialEvidence,
)
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.task import Task


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One method of a table as it was trained; `method` is fully resolved."""

    label: str
    method: Method
    shape: ModelShape
    steps: int
    schedule: Schedule
    trials: tuple[TrialEvidence, ...]
    test_accuracy: float

    @property
    def parameters(self) -> int:
        """How many are trained."""
        return self.method.trained_scalars(self.shape)

    @property
    def function(self) -> Method:
        """The configuration that stands for all which compute the same function."""
        return self.method.equivalent_on(self.shape)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that are trained alike and compute one function: one piece of evidence."""

    rows: tuple[MeasuredRow, ...]

    @property
    def first(self) -> MeasuredRow:
        """The least accurate, which gives the piece its name: the failure is to be explained."""
        return min(self.rows, key=lambda row: row.test_accuracy)

    def evidence(self) -> MethodEvidence:
        """The trials of all rows, and the accuracy of the first."""
        row = self.first
        return MethodEvidence(
            method=row.label,
            trials=tuple(trial for one in self.rows for trial in one.trials),
            test_accuracy=row.test_accuracy,
            parameters=row.parameters,
            steps=row.steps,
            schedule=row.schedule,
            pins_attention=row.method.first_layer_attention == "cannot_change",
            grows=row.method.has_sizes(),
            restriction=row.method.restriction,
            configuration=row.method.model_dump(mode="json"),
        )


def pieces(rows: Sequence[MeasuredRow]) -> tuple[Piece, ...]:
    """The rows by what they compute and how they were trained, in their order."""
    found: list[list[MeasuredRow]] = []
    for row in rows:
        for others in found:
            if _is_same_piece(others[0], row):
                others.append(row)
                break
        else:
            found.append([row])
    return tuple(Piece(tuple(of)) for of in found)


def _is_same_piece(first: MeasuredRow, then: MeasuredRow) -> bool:
    trained = (first.steps, first.schedule) == (then.steps, then.schedule)
    return trained and first.function == then.function


def evidence(
    rows: Sequence[MeasuredRow],
    reference: str | None,
    task: Task,
    base: BaseEvidence | None,
    *,
    base_has_tasks: bool = True,
) -> Iterator[Evidence]:
    """The evidence on every piece that trains something, other than the row called `reference`.

    `base_has_tasks` is False for an imported base, which was pretrained on none of our tasks.
    """
    every = [one for one in pieces(rows) if one.first.parameters]
    measured = [(one, one.evidence()) for one in every]
    known = next((of for one, of in measured if one.first.label == reference), None)
    control = next((of for one, of in measured if one.first.method.is_attention_control), None)
    for piece, of in measured:
        if of is known:
            continue
        rest = [(other.first, found) for other, found in measured if other is not piece]
        yield Evidence(
            subject=of,
            reference=known,
            pinned=None if control is of else control,
            sizes=tuple(found for row, found in rest if _is_other_size(piece.first, row)),
            durations=tuple(f for row, f in rest if row.function == piece.first.function),
            others=tuple(found for row, found in rest if _is_rival(piece.first, row)),
            equivalent=tuple(row.label for row in piece.rows if row is not piece.first),
            base=base if piece.first.method.starts_from_base else None,
            base_has_tasks=base_has_tasks and piece.first.method.starts_from_base,
            chance_loss=task.chance_loss(),
            chance_accuracy=task.chance(),
            counted_length=task.counted_length(),
        )


def longer_trainings(rows: Sequence[MeasuredRow]) -> frozenset[str]:
    """The labels of rows that train longer what another row trains with the steps of the others.

    They are evidence for a diagnosis: that more steps change nothing, or what they change.
    """
    return frozenset(
        row.label
        for row in rows
        if any(_is_short_training(one, row) and _has_company(one, rows) for one in rows)
    )


def _is_short_training(short: MeasuredRow, row: MeasuredRow) -> bool:
    return short.function == row.function and short.steps < row.steps


def _has_company(row: MeasuredRow, rows: Sequence[MeasuredRow]) -> bool:
    """Return True if another method that trains something has as many steps."""
    return any(
        one.steps == row.steps and one.parameters and one.function != row.function for one in rows
    )


def _is_other_size(subject: MeasuredRow, row: MeasuredRow) -> bool:
    alike = row.function.without_size() == subject.function.without_size()
    return alike and row.function != subject.function


def _is_rival(subject: MeasuredRow, row: MeasuredRow) -> bool:
    """Return True for another method that competes for the same budget."""
    return not row.method.is_reference and row.function.name != subject.function.name


def base_evidence(tasks: Sequence[tuple[Task, Sequence[float]]]) -> BaseEvidence | None:
    """The base on its own tasks from its scores on each; None unless all were scored.

    A mixture gives no cue to which of its tasks is meant, so that no model can do all of them:
    their scores count together.
    """
    if not tasks or not all(scores for _, scores in tasks):
        return None
    together = math.fsum(math.fsum(scores) / len(scores) for _, scores in tasks)
    chance = math.fsum(task.chance() for task, _ in tasks)
    return BaseEvidence(accuracy=min(1.0, together), chance=min(1.0, chance))
