"""Questions that a study answers by planning its own runs: evidence, plans and endings.

May import comparisons, studies and statistics. Nothing here knows of jobs or of a database: a plan
is a function of the question and of what the finished passes showed, so that it can be replayed.
"""
