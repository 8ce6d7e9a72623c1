"""The states of a job, what a change of state implies, and who holds it.

Imports `people` and the wings below it.
"""
