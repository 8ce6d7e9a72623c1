"""The page of webhooks.

May import rendering.
"""
