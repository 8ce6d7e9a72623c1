"""The routes of `/v1`, one module per noun: each parses, calls one service and answers."""
