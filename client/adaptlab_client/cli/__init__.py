"""The command line `adaptlab`: it reads arguments, calls the client and prints."""
