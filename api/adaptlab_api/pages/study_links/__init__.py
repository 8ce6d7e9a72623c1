"""Links to a study: the page that lists them, and the page that they open.

May import comparisons, results, studies and rendering.
"""
