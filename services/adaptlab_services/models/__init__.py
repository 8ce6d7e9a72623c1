"""What a job can be made of: base models, datasets, methods, budgets.

Imports `storage` and the wings below it.
"""
