"""The page of tokens.

May import rendering.
"""
