"""Comparisons: scores side by side, what may be compared, verdicts and diagnoses.

Imports `studies` and the wings below it.
"""
