"""Tables of methods with verdicts and diagnoses, and their bundles.

Imports `studies` and the wings below it.
"""
