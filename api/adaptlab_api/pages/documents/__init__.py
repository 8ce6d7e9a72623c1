"""The documentation, as pages of the server.

May import rendering.
"""
