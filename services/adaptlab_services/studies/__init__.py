"""Studies: many jobs planned, created, extended and cancelled together.

Imports `results` and the wings below it.
"""
