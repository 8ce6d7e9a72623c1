"""Generation of the reference pages for the client and the command line."""
