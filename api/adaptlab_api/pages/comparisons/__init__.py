"""The page that compares chosen jobs; tables and charts of comparisons.

May import rendering.
"""
