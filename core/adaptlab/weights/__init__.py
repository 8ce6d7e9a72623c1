"""Weights in files, and folders of models in Hugging Face's layout.

Imports `plugins`.
"""
