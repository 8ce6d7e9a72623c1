"""Requests: bodies, parameters, ids, and the checks before a route runs.

Imports `answers` and `limits`.
"""
