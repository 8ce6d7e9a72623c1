"""The report of a theory check, re-exported for the theory."""

from adaptlab.runs.theory_report import Check, Detail, Finding, TheoryReport

__all__ = ["Check", "Detail", "Finding", "TheoryReport"]
