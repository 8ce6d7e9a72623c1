"""What a run reads, what it reports, and what the server accepts of it.

Imports `specs` and the wings below it.
"""
