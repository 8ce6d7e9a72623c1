"""The page of recommendations.

May import rendering.
"""
