"""The measurements of theory checks, one file each."""
