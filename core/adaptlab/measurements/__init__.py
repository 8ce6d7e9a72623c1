"""Reports of a run, their stored form, and the bounds on both.

Imports `specs` and the wings below it.
"""
