"""Datasets of records: what a line is, how files are read, what is known about them.

This wing imports words and errors of core only.
"""
