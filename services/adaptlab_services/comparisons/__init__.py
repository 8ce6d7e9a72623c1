"""Tables of methods with verdicts and diagnoses, and bundles of them.

Imports `studies` and the wings below it.
"""
