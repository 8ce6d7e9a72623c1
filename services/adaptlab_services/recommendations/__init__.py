"""Which method for a task within a budget, from stored results.

Imports `comparisons` and the wings below it.
"""
