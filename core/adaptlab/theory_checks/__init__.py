"""Theory checks, one per file, which are discovered automatically."""
