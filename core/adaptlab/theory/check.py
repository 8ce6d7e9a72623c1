"""What a theory check says, under the name by which the theory knows it."""

from adaptlab.measurements.theory_report import Check, Detail, Finding, TheoryReport

__all__ = ["Check", "Detail", "Finding", "TheoryReport"]
