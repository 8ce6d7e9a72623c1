"""Recommendations of a method for a budget, from stored results.

Imports `comparisons` and the wings below it.
"""
