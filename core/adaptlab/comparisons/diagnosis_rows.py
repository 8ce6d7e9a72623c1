"""The evidence of a diagnosis from the rows of a table."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adaptlab.comparisons.diagnosis_evidence import (
    BaseEvidence,
    DiagnosisEvidence,
    MethodEvidence,
    Schedule,
    TrialEvidence,
)
from adaptlab.comparisons.diagnosis_measures import LARGER, TWICE
from adaptlab.comparisons.diagnosis_next import rivals
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.task import Task
from adaptlab.values import AUTO


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One method of a table as it was trained; `method` is fully resolved.

    `is_control` is True for a training that belongs to a diagnosis. `seconds` is the time per step
    and replicate, None if unknown.
    """

    label: str
    method: Method
    shape: ModelShape
    steps: int
    schedule: Schedule
    trials: tuple[TrialEvidence, ...]
    score: float
    is_control: bool = False
    seconds: float | None = None

    @property
    def parameters(self) -> int:
        """The number of trained parameters."""
        return self.method.trained_scalars(self.shape)

    @property
    def function(self) -> Method:
        """The configuration that represents all that compute the same function."""
        return self.method.equivalent_on(self.shape)


@dataclass(frozen=True, slots=True)
class EvidencePiece:
    """Rows of equal function and training, as one piece of evidence."""

    rows: tuple[MeasuredRow, ...]

    @property
    def first(self) -> MeasuredRow:
        """The row with the lowest score, whose failure is to be explained."""
        return min(self.rows, key=lambda row: row.score)

    def evidence(self) -> MethodEvidence:
        """Return the trials of all rows with the score of the first."""
        row = self.first
        return MethodEvidence(
            method=row.label,
            trials=tuple(trial for one in self.rows for trial in one.trials),
            score=row.score,
            parameters=row.parameters,
            steps=row.steps,
            schedule=row.schedule,
            pins_attention=row.method.first_layer_attention == "cannot_change",
            grows=row.method.has_sizes(),
            restriction=row.method.restriction,
            configuration=row.method.model_dump(mode="json"),
            larger=_larger(row),
            rival=_rival(row),
            usual_rates=_usual_rates(row),
            is_control=row.is_control,
            seconds=row.seconds,
        )


def _usual_rates(row: MeasuredRow) -> tuple[float, float]:
    low, high = row.method.learning_rates(2, row.shape)
    return low, high


def _larger(row: MeasuredRow) -> dict[str, object]:
    """Return the row's method at twice its size, empty if it has no such size."""
    knob = row.method.size_knob
    if knob is None:
        return {}
    free = row.method.model_copy(update={knob: AUTO})
    sized = free.within(row.shape, TWICE * row.parameters)
    is_larger = sized.trained_scalars(row.shape) >= LARGER * row.parameters
    is_possible = is_larger and not sized.problems(row.shape)
    return sized.model_dump(mode="json") if is_possible else {}


def _rival(row: MeasuredRow) -> dict[str, object]:
    """Return the first other rival as large as the row, with its size set."""
    name = next((name for name in rivals() if name != row.function.name), None)
    if name is None:
        return {}
    free = METHODS.get(name)(name=name)
    size = max(row.parameters, free.smallest().trained_scalars(row.shape))
    sized = free.within(row.shape, size).model_dump(mode="json", exclude_defaults=True)
    return {**sized, "name": name}


def pieces(rows: Sequence[MeasuredRow]) -> tuple[EvidencePiece, ...]:
    """Return the rows grouped by their function and training, in order."""
    groups: list[list[MeasuredRow]] = []
    for row in rows:
        for group in groups:
            if _is_same_piece(group[0], row):
                group.append(row)
                break
        else:
            groups.append([row])
    return tuple(EvidencePiece(tuple(group)) for group in groups)


def _is_same_piece(first: MeasuredRow, then: MeasuredRow) -> bool:
    of_first = (first.steps, first.schedule, first.is_control)
    of_then = (then.steps, then.schedule, then.is_control)
    return of_first == of_then and first.function == then.function


@dataclass(frozen=True, slots=True)
class SharedSetting:
    """What all rows of a table have in common.

    `chance` is the score on the scored items that needs no skill, as in their comparison, and
    `alone` that of the base model alone. Scores are those of `metric`, if there is one. `base` and
    `base_has_tasks` are as in `DiagnosisEvidence`: an imported base was pretrained on none of our
    tasks. `present` and `running` are labels of all trainings that were asked for, and of those
    that have not ended.
    """

    task: Task
    chance: float
    base: BaseEvidence | None = None
    base_has_tasks: bool = True
    alone: float | None = None
    present: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    metric: str | None = None


def evidence(
    rows: Sequence[MeasuredRow], reference: str | None, place: SharedSetting
) -> Iterator[DiagnosisEvidence]:
    """Yield the evidence on all but the reference and controls."""
    trained = [piece for piece in pieces(rows) if piece.first.parameters and piece.first.trials]
    measured = [(piece, piece.evidence()) for piece in trained]
    of_reference = next((of for one, of in measured if one.first.label == reference), None)
    pinned = [of for one, of in measured if one.first.method.is_attention_control]
    for piece, subject in measured:
        if subject is of_reference or subject.is_control:
            continue
        rest = [(other.first, of) for other, of in measured if other is not piece]
        first = piece.first
        yield DiagnosisEvidence(
            subject=subject,
            reference=of_reference,
            pinned=None if subject in pinned else _most_trained(pinned),
            sizes=tuple(of for row, of in rest if _is_other_size(first, row)),
            durations=tuple(of for row, of in rest if row.function == first.function),
            others=tuple(of for row, of in rest if _is_rival(first, row)),
            equivalent=tuple(row.label for row in piece.rows if row is not first),
            base=place.base if first.method.starts_from_base else None,
            base_has_tasks=place.base_has_tasks and first.method.starts_from_base,
            base_alone=place.alone,
            chance_loss=place.task.chance_loss(),
            chance_score=place.chance,
            metric=place.metric,
            counted_length=place.task.counted_length(),
            present=place.present,
            running=place.running,
        )


def _most_trained(pinned: Sequence[MethodEvidence]) -> MethodEvidence | None:
    """Return the pinned-attention reference with the most trials."""
    return max(pinned, key=lambda one: (len(one.trials), one.steps), default=None)


def repeated_rows(rows: Sequence[MeasuredRow]) -> frozenset[str]:
    """Return the labels of rows that repeat another one trained otherwise.

    Another row of the same function has the steps and schedule that most methods have. A repetition
    is evidence for a diagnosis, marked as a control or not, and its settings void no comparison.
    """
    trained = [row for row in rows if row.parameters and not row.is_control]
    functions: dict[tuple[int, Schedule], list[Method]] = {}
    for row in trained:
        same = functions.setdefault((row.steps, row.schedule), [])
        if row.function not in same:
            same.append(row.function)
    usual = max(functions, key=lambda key: (len(functions[key]), -key[0]), default=None)
    if usual is None or len(functions[usual]) < 2:
        return frozenset()
    return frozenset(
        row.label
        for row in trained
        if (row.steps, row.schedule) != usual and row.function in functions[usual]
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
