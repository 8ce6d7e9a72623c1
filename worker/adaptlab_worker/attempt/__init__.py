"""One attempt at one job, from its claim to its end."""
