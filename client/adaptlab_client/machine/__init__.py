"""The user's machine: checks, Slurm scripts and installed dictionaries."""
