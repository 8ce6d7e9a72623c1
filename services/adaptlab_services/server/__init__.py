"""What a server is started with, and what it does for itself.

Imports any wing.
"""
