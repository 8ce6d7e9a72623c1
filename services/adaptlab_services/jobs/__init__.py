"""Jobs as users see them: created, previewed, listed, paused, cancelled.

Imports `models`, `querying` and the wings below them.
"""
