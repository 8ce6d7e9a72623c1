"""Registry of the measurements of theory checks, by declaration name."""

from collections.abc import Callable, Iterable
from typing import Any

from adaptlab.plugins.registry import Registry
from adaptlab.runs.theory_report import Check
from adaptlab.theory.subject import Subject

# `Any`, because each measurement takes its declaration's class, narrower than TheoryCheck.
Measure = Callable[[Any, Subject], Iterable[Check]]
"""From a check and its subject to reports."""

MEASURES: Registry[Measure] = Registry("theory measure", "adaptlab.theory.checks")
