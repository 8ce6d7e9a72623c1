"""The worker's processes, threads and slots, and what they do between jobs."""
