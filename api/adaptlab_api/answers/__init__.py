"""Responses: JSON, files, streams, news of jobs, and problems.

Imports `limits`.
"""
