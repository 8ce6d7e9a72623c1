"""Bundles: a study's decision as one file that renders, and is checked, without a server.

Pure: bytes go in and out through files that are given; what is in a bundle is read by fixed names.
"""
