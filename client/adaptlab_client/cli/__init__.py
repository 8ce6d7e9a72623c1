"""The command line `adaptlab`, which uses the Python client alone."""
