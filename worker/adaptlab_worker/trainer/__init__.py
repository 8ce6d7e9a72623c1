"""The process that trains, and the worker's end of it."""
