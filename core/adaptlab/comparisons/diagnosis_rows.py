"""The evidence of a diagnosis from the rows of a table."""

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
from adaptlab.comparisons.diagnosis_next import rivals
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.sizing import PARAMETERS, TOKENS, BudgetAxis
from adaptlab.plugins.task import Task


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One method of a table as it was trained; `method` is fully resolved.

    `axis` is what the budgets of the table limit.
    """

    label: str
    method: Method
    shape: ModelShape
    steps: int
    schedule: Schedule
    trials: tuple[TrialEvidence, ...]
    test_accuracy: float
    axis: BudgetAxis = PARAMETERS

    @property
    def parameters(self) -> int:
        """The number of trained parameters."""
        return self.method.trained_scalars(self.shape)

    @property
    def function(self) -> Method:
        """The configuration that represents all that compute the same function."""
        return self.method.equivalent_on(self.shape)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of equal function and training, as one piece of evidence."""

    rows: tuple[MeasuredRow, ...]

    @property
    def first(self) -> MeasuredRow:
        """The least accurate row, whose failure is to be explained."""
        return min(self.rows, key=lambda row: row.test_accuracy)

    def evidence(self) -> MethodEvidence:
        """Return the trials of all rows with the accuracy of the first."""
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
            context_tokens=row.method.extra_context_tokens() if row.axis == TOKENS else None,
            rival=_rival(row) if row.axis == TOKENS else {},
        )


def _rival(row: MeasuredRow) -> dict[str, object]:
    """Return the first rival as large as the row, with its size set."""
    name = rivals()[0]
    free = METHODS.get(name)(name=name)
    size = max(row.parameters, free.smallest().trained_scalars(row.shape))
    sized = free.within(row.shape, size).model_dump(mode="json", exclude_defaults=True)
    return {**sized, "name": name}


def pieces(rows: Sequence[MeasuredRow]) -> tuple[Piece, ...]:
    """Return the rows grouped by their function and training, in order."""
    groups: list[list[MeasuredRow]] = []
    for row in rows:
        for group in groups:
            if _is_same_piece(group[0], row):
                group.append(row)
                break
        else:
            groups.append([row])
    return tuple(Piece(tuple(group)) for group in groups)


def _is_same_piece(first: MeasuredRow, then: MeasuredRow) -> bool:
    trained = (first.steps, first.schedule) == (then.steps, then.schedule)
    return trained and first.function == then.function


def evidence(
    rows: Sequence[MeasuredRow],
    reference: str | None,
    task: Task,
    base: BaseEvidence | None,
    *,
    chance: float,
    base_has_tasks: bool = True,
) -> Iterator[Evidence]:
    """Yield the evidence on every trained piece except the reference.

    `chance` is the accuracy on the scored items that needs no skill, as in their comparison.
    `base_has_tasks` is False for an imported base, which was pretrained on none of our tasks.
    """
    trained = [piece for piece in pieces(rows) if piece.first.parameters]
    measured = [(piece, piece.evidence()) for piece in trained]
    of_reference = next((of for one, of in measured if one.first.label == reference), None)
    control = next((of for one, of in measured if one.first.method.is_attention_control), None)
    for piece, subject in measured:
        if subject is of_reference:
            continue
        rest = [(other.first, of) for other, of in measured if other is not piece]
        yield Evidence(
            subject=subject,
            reference=of_reference,
            pinned=None if control is subject else control,
            sizes=tuple(of for row, of in rest if _is_other_size(piece.first, row)),
            durations=tuple(of for row, of in rest if row.function == piece.first.function),
            others=tuple(of for row, of in rest if _is_rival(piece.first, row)),
            equivalent=tuple(row.label for row in piece.rows if row is not piece.first),
            base=base if piece.first.method.starts_from_base else None,
            base_has_tasks=base_has_tasks and piece.first.method.starts_from_base,
            chance_loss=task.chance_loss(),
            chance_accuracy=chance,
            counted_length=task.counted_length(),
        )


def longer_trainings(rows: Sequence[MeasuredRow]) -> frozenset[str]:
    """Return the labels of rows that train another row for longer.

    The other row has as many steps as further methods. Such rows are evidence for a diagnosis: they
    show whether more steps change anything.
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
    """Return the base's accuracy on its own tasks.

    None unless it was scored on all of them. A mixture gives no cue to which of its tasks is meant,
    so no model can do all of them, and their scores are added up.
    """
    if not tasks or not all(scores for _, scores in tasks):
        return None
    together = math.fsum(math.fsum(scores) / len(scores) for _, scores in tasks)
    chance = math.fsum(task.chance() for task, _ in tasks)
    return BaseEvidence(accuracy=min(1.0, together), chance=min(1.0, chance))
