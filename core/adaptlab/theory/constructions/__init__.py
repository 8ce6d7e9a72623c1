"""Transformers by formula; virtual tokens determine their answers."""
