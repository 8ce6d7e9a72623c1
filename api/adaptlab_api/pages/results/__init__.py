"""The page of queries over results.

May import rendering.
"""
