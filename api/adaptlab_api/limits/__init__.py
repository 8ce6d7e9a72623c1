"""Limits per client, and the entries of the audit log.

Imports no other wing.
"""
