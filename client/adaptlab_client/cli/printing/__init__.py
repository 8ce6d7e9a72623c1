"""What commands print: tables and files on stdout, messages and bars on stderr."""
