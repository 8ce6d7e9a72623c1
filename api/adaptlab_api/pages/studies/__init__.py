"""The list of studies and the page of one study.

May import comparisons, recipes and rendering.
"""
