"""Unconditional capacity as a job's check."""

from collections.abc import Iterable

from adaptlab.runs.theory_report import Check
from adaptlab.theory.capacity import capacity
from adaptlab.theory.generation import GeneratingBase
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.capacity import CapacityCheck


@MEASURES.register("capacity")
def measure(check: CapacityCheck, subject: Subject) -> Iterable[Check]:
    """Count the completions of the base model, in float64."""
    base = subject.measured_base
    result = capacity(
        GeneratingBase(base.family, base.weights),
        check.length,
        check.soft_tokens,
        check.directed_tokens,
        check.steps,
        subject.seed,
    )
    return (result.check,)
