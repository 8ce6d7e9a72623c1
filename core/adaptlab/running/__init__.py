"""Execution of one job, above the engine and the theory."""
