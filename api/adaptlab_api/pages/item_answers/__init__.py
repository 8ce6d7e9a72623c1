"""The answers page of a job: items with expected and given answers.

May import rendering.
"""
