"""The forms that submit a job or a study.

May import rendering.
"""
