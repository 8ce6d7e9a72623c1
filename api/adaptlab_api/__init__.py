"""The HTTP API and the dashboard; may use `adaptlab_services` and everything below it."""
