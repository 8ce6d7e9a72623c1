"""What a run reports and what is kept of it, with the bounds on both.

Imports `specs` and the wings below it.
"""
