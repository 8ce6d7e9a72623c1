"""The attention page of a job, and its charts.

May import rendering.
"""
