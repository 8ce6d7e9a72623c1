"""How the theory checks are done, one file each, by the name of the declaration."""
