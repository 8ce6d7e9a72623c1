"""The list of jobs and the page of one job.

May import attention, studies and the wings below them.
"""
