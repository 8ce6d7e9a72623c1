"""The pages of base models.

May import rendering.
"""
