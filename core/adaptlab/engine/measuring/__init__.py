"""Scores, answers and attention of trained replicates."""
