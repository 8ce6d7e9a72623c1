"""One file a revision, numbered in order; each goes up, down and up again in a test."""
