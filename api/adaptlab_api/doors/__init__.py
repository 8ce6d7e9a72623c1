"""Checks of every request before it reaches a route: sockets, tokens, rates, sizes, time.

Imports `requests` and the wings below it.
"""
