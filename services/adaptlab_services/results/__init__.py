"""Scores, curves, attention and checkpoints of one or many jobs.

Imports `jobs` and the wings below it; not `leases`.
"""
