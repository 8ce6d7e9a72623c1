"""Studies that repeat a paper, and reports on its claims.

Imports `comparisons` and the wings below it.
"""
