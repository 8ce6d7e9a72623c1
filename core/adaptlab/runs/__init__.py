"""What a run needs.

Imports `specs` and the wings below it.
"""
