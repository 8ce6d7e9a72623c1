"""A project's own boards, to which the API sends studies.

Imports `hub`, for its sealing, `webhooks`, for their outbox, and the wings below them.
"""
