"""The command line `adaptlab`: parses arguments, calls the client and prints."""
