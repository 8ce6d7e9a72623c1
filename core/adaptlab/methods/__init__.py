"""One file a method: what it is. How it is done stands in `adaptlab.engine.methods`."""
