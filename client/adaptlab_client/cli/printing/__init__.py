"""Output of commands: results on stdout, messages and bars on stderr."""
