"""Shared by all pages: templates, formats, forms, static files, errors.

Imports no other wing of the pages.
"""
