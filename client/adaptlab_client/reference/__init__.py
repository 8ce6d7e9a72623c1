"""The reference pages of the command line and of the Python client, made from the code."""
