"""One file a family: its forward pass."""
