"""Rows, data frames, pictures and progress bars for answers."""
