"""Adaptation methods, one per file.

Their computations are in `adaptlab.engine.methods`.
"""
