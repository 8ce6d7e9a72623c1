"""Scores, curves, attention and checkpoints, of one job or of many.

Imports `jobs` and the wings below it; not `leases`.
"""
