"""Studies: their spec, the checks on it, and the jobs that it expands to.

Imports `statistics` and the wings below it.
"""
