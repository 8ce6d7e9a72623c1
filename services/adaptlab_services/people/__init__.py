"""Users, tokens, projects, permissions and the audit log.

Imports `limits`.
"""
