"""The search that a page not found offers.

May import rendering.
"""
