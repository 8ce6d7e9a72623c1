"""The answers of tasks, one file each."""
