"""The dashboard: pages rendered on the server. Routes call services; charts come from core."""
