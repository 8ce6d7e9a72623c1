"""Datasets of records: their lines, facts and files.

This wing imports words and errors of core only.
"""
