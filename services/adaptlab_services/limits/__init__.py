"""Limits per owner and per server: queued jobs, queue hours, bytes, sizes.

Imports no other wing.
"""
