"""Adapters in the formats of other libraries."""
