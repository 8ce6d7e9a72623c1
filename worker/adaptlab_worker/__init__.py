"""The worker: claims jobs and trains them in a process that loads torch."""
