"""Files of weights, and model folders in the Hugging Face layout.

Imports `plugins`.
"""
