"""Comparisons: warnings, and one table for each base model and task."""

from typing import Literal
from uuid import UUID

from adaptlab.comparisons.table_comparison import (
    TableComparison,
    TableWarning,
)
from adaptlab.values import Value
from adaptlab_answers.studies import StudyState


class JobComparisonView(Value):
    """A comparison of selected jobs, with the warnings of all tables."""

    object: Literal["comparison"] = "comparison"
    warnings: tuple[TableWarning, ...]
    level: float
    margin: float
    tables: tuple[TableComparison, ...]


class StudyName(Value):
    """A study by name; if it is `terminal`, no further scores will follow."""

    id: UUID
    name: str
    state: StudyState
    terminal: bool


class ComparisonProgress(Value):
    """Progress of a comparison that is being computed, in tables.

    `study` is null if the jobs were selected one by one.
    """

    object: Literal["comparison.progress"] = "comparison.progress"
    study: StudyName | None
    tables: int
    computed: int


class StudyComparisonView(JobComparisonView):
    """The comparison of a study."""

    study: StudyName
