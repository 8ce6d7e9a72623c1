"""Unconditional capacity as a job's check."""

from collections.abc import Iterable

from adaptlab.theory.capacity import capacity
from adaptlab.theory.generation import Base
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory_checks.capacity import CapacityCheck
from adaptlab.theory_report import Check


@MEASURES.register("capacity")
def measure(check: CapacityCheck, base: FrozenBase | None, seed: int) -> Iterable[Check]:
    """The completions of the base model, in float64."""
    assert base is not None
    found = capacity(
        Base(base.family, base.weights),
        check.length,
        check.soft_tokens,
        check.directed_tokens,
        check.steps,
        seed,
    )
    return (found.check,)
