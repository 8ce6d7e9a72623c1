"""The pages of projects with their members, of users and of the audit log.

May import rendering.
"""
