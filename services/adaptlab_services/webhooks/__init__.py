"""Messages to other servers about ended jobs and studies and lost workers.

Imports `comparisons` and the wings below it.
"""
