"""Training of all replicates of a job together."""
