"""Comparisons: scores side by side, verdicts, warnings and diagnoses.

Imports `studies` and the wings below it.
"""
