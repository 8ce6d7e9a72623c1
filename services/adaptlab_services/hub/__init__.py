"""Models and datasets that are fetched from a hub by their names.

Imports `jobs` and the wings below it.
"""
