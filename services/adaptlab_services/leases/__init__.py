"""How a worker takes a job, reports on it and gives it back.

Imports `jobs` and the wings below it.
"""
