"""Where the bytes of artifacts lie: Postgres, a directory, or an S3-compatible server."""
