"""Transformers built by formula, in which a virtual token decides the answers."""
