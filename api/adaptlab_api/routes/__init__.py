"""The routes of `/v1`, one file a noun: each parses, calls one service and answers."""
