"""Theorems 1 and 2 as a job's check."""

from collections.abc import Iterable

from adaptlab.runs.theory_report import Check
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory.theorems import theorem_checks
from adaptlab.theory_checks.theorems import Theorems


@MEASURES.register("theorems")
def measure(check: Theorems, subject: Subject) -> Iterable[Check]:
    """Check every construction of the requested effort."""
    return theorem_checks(check.effort, subject.seed)
