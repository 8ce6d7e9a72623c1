"""The page of uploaded folders.

May import rendering.
"""
