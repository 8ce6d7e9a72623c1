"""What every request passes before a route sees it: sockets, tokens, rates, sizes and time."""
