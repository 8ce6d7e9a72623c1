"""Studies: their spec, the checks on it and the jobs that it expands to."""
