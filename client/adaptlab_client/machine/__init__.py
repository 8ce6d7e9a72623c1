"""The user's own machine: its doctor, its Slurm scripts, the dictionaries installed on it."""
