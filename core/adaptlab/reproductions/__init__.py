"""Reproductions of papers: recipes, their claims, and what a study finds of them.

Imports `comparisons` and the wings below it.
"""
