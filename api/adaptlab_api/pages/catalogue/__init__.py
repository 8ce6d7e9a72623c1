"""The pages of methods, tasks and families.

May import rendering.
"""
