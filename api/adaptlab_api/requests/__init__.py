"""What comes in: bodies, parameters, ids, and what a route checks before it runs.

Imports `answers` and `limits`.
"""
