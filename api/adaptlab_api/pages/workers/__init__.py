"""The page of workers and queues.

May import rendering.
"""
