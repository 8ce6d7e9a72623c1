"""Checks of every request before its route: tokens, rates, sizes, time.

Imports `requests` and the wings below it.
"""
