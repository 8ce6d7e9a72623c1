"""Alembic's environment and revisions; run by `adaptlab_db.migrate` only."""
