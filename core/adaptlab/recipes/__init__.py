"""Recipes by paper, one file each; a file in here is found without being listed."""
