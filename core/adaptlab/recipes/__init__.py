"""Recipes by paper, one file each; new files are found automatically."""
