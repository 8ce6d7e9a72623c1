"""Tables, sessions, migrations and the artifact store.

This package may use `adaptlab` (torch-free) only.
"""
