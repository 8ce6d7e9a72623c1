"""The attachments of methods, one file each."""
