"""Shared by all pages: templates, formats, forms, static files and problem pages.

Imports no other wing of the pages.
"""
