"""Signing a browser in and out.

May import rendering.
"""
