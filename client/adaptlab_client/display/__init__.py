"""What answers look like: rows, data frames, pictures and progress bars."""
