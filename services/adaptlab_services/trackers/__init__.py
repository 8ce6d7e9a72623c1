"""A project's own boards, to which the API sends studies as they run and end.

Imports `hub`, for its sealing, `webhooks`, for their outbox, and the wings below them.
"""
