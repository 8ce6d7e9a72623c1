"""The Celery worker: claims jobs and has them trained. Only its trainer process loads torch."""
