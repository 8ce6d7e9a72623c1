"""Records as text that a model reads: templates, splits, tokenisers.

This wing imports records and the words and errors of core only.
"""
