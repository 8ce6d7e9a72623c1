"""Reproductions of papers: recipes, claims and their verdicts.

Imports `comparisons` and the wings below it.
"""
