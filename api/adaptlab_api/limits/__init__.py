"""How often and how much one client may ask, and what the audit log notes of refusals.

Imports no other wing.
"""
