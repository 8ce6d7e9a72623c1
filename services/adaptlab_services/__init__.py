"""Use cases, one file a noun; may touch `adaptlab_db` and `adaptlab` (torch-free) only."""
