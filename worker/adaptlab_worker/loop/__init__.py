"""The worker's processes and slots, and their work between jobs."""
