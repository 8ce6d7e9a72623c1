"""Address, tokens, requests, retries, pages, streams and downloads."""
