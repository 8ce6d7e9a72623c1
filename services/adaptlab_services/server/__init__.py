"""Start-up of a server: its stores and its readiness.

Imports any wing.
"""
