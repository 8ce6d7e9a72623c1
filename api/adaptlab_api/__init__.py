"""The HTTP API and the dashboard; may import services and below."""
