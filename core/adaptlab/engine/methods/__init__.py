"""One file a method: what it does to the forward pass."""
