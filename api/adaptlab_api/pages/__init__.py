"""The dashboard: pages rendered on the server, in wings by subject."""
