"""What a plug-in is: the registry, and what families, methods, tasks and checks are made of.

Imports no other wing.
"""
