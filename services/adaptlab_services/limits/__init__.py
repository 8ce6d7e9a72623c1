"""How much one person and one server may have: queues, bytes, sizes.

Imports no other wing.
"""
