"""How the client reaches a server: address, tokens, retries, pages, streams and downloads."""
