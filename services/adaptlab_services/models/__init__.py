"""Parts of a job: base models, datasets, methods and budgets.

Imports `storage` and the wings below it.
"""
