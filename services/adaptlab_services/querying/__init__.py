"""The filter language, and the fields of jobs and heads that it can name.

Imports `lifecycle` and the wings below it.
"""
