"""The forward passes of families, one file each."""
