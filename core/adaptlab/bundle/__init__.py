"""Bundles: a study's decision as one file, checked without a server.

Bundles are read and written through files passed as arguments. Members have fixed names.
"""
