"""Uploads and stored files: received, checked, moved and collected.

Imports `lifecycle` and the wings below it.
"""
