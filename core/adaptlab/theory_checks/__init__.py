"""The theory checks, one file each; a file here is found without being listed."""
