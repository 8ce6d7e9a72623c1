"""The ways to jobs and results: by database or by API."""
