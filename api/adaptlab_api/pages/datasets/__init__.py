"""The pages of datasets.

May import rendering.
"""
