"""Frozen models with attachments, ours and published ones."""
