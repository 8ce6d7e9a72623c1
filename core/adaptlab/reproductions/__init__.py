"""Reproductions of papers: recipes, their claims, and what a study finds of them."""
