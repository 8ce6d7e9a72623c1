"""Revisions, one file each, numbered in order."""
