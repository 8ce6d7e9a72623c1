"""How theory checks are done, found by the name of the declaration."""

from collections.abc import Callable, Iterable
from typing import Any

from adaptlab.measurements.theory_report import Check
from adaptlab.plugins.registry import Registry
from adaptlab.theory.subject import Subject

# The declaration's own class is narrower than TheoryCheck; each file names the one it serves.
Measure = Callable[[Any, Subject], Iterable[Check]]
"""From a check and what is measured to reports."""

MEASURES: Registry[Measure] = Registry("theory measure", "adaptlab.theory.checks")
