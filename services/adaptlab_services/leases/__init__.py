"""Leases: claiming jobs, reporting on them and returning them.

Imports `jobs` and the wings below it.
"""
