"""The resources of the API, each an attribute of the client with its methods."""
