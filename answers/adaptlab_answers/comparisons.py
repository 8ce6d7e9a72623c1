"""Comparisons: warnings, then one table for each base model and task."""

from typing import Literal
from uuid import UUID

from adaptlab.comparisons.table_comparison import (
    TableComparison,
    TableWarning,
)
from adaptlab.values import Value
from adaptlab_answers.studies import StudyState


class JobComparison(Value):
    """Jobs held against each other; `warnings` of all tables come first."""

    object: Literal["comparison"] = "comparison"
    warnings: tuple[TableWarning, ...]
    level: float
    margin: float
    tables: tuple[TableComparison, ...]


class StudyName(Value):
    """Which study; `terminal` says that no more scores will come by themselves."""

    id: UUID
    name: str
    state: StudyState
    terminal: bool


class ComparisonProgress(Value):
    """A comparison that is being computed: how many of its tables are there already.

    `study` is None for jobs that were chosen.
    """

    object: Literal["comparison.progress"] = "comparison.progress"
    study: StudyName | None
    tables: int
    computed: int


class StudyComparison(JobComparison):
    """All tables of a study."""

    study: StudyName
