"""Stores of artifacts' bytes: Postgres, a directory, or S3-compatible."""
