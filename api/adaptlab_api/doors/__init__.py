"""What every request passes before a route sees it: sockets, tokens, rates, sizes and time.

Imports `requests` and the wings below it.
"""
