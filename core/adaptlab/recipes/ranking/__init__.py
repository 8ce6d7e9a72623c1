"""Recipes that re-run the field's rankings of adaptation methods."""
