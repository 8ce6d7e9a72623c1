"""Studies as runs of trackers, and what MLflow and Trackio are asked.

Whoever sends brings the connection, so the server and the client send the same.
"""
