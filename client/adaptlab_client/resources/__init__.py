"""The resources of the API, each an attribute of `Client`."""
