"""One file a family: what it is. The forward pass stands in `adaptlab.engine.families`."""
