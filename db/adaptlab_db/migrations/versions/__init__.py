"""Revisions, one file each, numbered in order.

Each goes up, down and up again in a test.
"""
