"""Metrics beside the share of right items, one module each."""
