"""Shared by all pages: templates, formats, forms, static files, problem pages.

Imports no other wing of the pages.
"""
