"""Registry of plug-ins and base classes of families, methods and tasks.

Imports no other wing.
"""
