"""The HTTP API and the dashboard; may import `adaptlab_services` and everything below it."""
