"""Families of base models, one per file.

Their forward passes are in `adaptlab.engine.families`.
"""
